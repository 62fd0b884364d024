// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "verbena/base/result.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {

/// Injects an event into the software device of this process, for tests: `port 1 down`, `gid-move`.
/// docs/guide/soft0.md lists the commands.
///
/// Errors: `not_supported` for other devices; EINVAL for an unknown command; ENODEV in a child of
/// fork(2). Thread-safe. Precondition: the calling thread has no open batch.
[[nodiscard]] result<void> inject_event(const context& device, const std::string& command);

}  // namespace verbena::inline VERBENA_ABI
