// SPDX-License-Identifier: MIT
// The device's own explanation of a failed completion.
#pragma once

#include <string>

#include "verbena/sys/provider.hpp"
#include "verbena/verbs/completion.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns the failed check with its key and values. If the device has no explanation, returns an
/// empty string. Only the software device stores explanations, and it discards old ones.
[[nodiscard]] std::string device_reason(const provider& of, const failed_completion& failed);

}  // namespace verbena::inline VERBENA_ABI::detail
