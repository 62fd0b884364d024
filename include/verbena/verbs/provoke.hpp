// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "verbena/base/result.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {

/// Makes something happen to the software device, in this process: `port 1 down`, `gid-move`, … For
/// tests and demonstrations. The commands are in docs/guide/soft0.md.
///
/// Errors: `not_supported` for other devices; EINVAL for a command that makes no sense; ENODEV in a
/// forked child. Thread-safe, but not from a thread with an open batch.
[[nodiscard]] result<void> provoke(const context& device, const std::string& command);

}  // namespace verbena::inline VERBENA_ABI
