// SPDX-License-Identifier: MIT
// The rules behind list_devices() and open_device(), apart from where the devices come from.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// What VERBENA_SOFTDEV says about the software device.
enum class soft_mode : std::uint8_t { on, off, only };

/// Reads `value` of VERBENA_SOFTDEV; nullptr and the empty text mean `on`.
[[nodiscard]] result<soft_mode> parse_soft_mode(const char* value);

/// Hardware first, then the software device's; what both lists have is taken from the second.
[[nodiscard]] std::vector<device> merge_lists(std::vector<device> hardware,
                                              std::vector<device> soft);

/// The rule of open_device() without a name.
[[nodiscard]] result<context> open_best(std::span<const device> devices);
/// The rule of open_device() with a name.
[[nodiscard]] result<context> open_named(std::span<const device> devices, std::string_view name);

}  // namespace verbena::inline VERBENA_ABI::detail
