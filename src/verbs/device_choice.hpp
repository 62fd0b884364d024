// SPDX-License-Identifier: MIT
// The rules of list_devices() and open_device(), for any list of devices.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device.hpp"
#include "verbena/verbs/device_list.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The values of VERBENA_SOFTDEV.
enum class soft_mode : std::uint8_t { on, off, only };

/// Parses a value of VERBENA_SOFTDEV. nullptr and the empty string mean `on`.
[[nodiscard]] result<soft_mode> parse_soft_mode(const char* value);

/// Joins the lists, hardware first. If a device is in both lists, only the entry of `soft` remains.
[[nodiscard]] std::vector<device> merge_lists(std::vector<device> hardware,
                                              std::vector<device> soft);

/// The device that open_device() without a name opens.
struct chosen_device {
  context opened;
  std::string warning;  ///< why no adapter with an active port was chosen; empty if one was
};

/// Opens the best of the accepted devices.
[[nodiscard]] result<chosen_device> open_best(std::span<const device> among,
                                              devices accepted = devices::any);
/// Opens the device with this name.
[[nodiscard]] result<context> open_named(std::span<const device> among, std::string_view name);

}  // namespace verbena::inline VERBENA_ABI::detail
