// SPDX-License-Identifier: MIT
// What the device itself says about a failed completion.
#pragma once

#include <string>

#include "verbena/sys/provider.hpp"
#include "verbena/verbs/completion.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Which check failed, on which key, with which numbers. Empty for devices that do not say (only
/// the software device does) and when it is forgotten.
[[nodiscard]] std::string device_reason(const provider& of, const failed_completion& failed);

}  // namespace verbena::inline VERBENA_ABI::detail
