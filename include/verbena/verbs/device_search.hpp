// SPDX-License-Identifier: MIT
// Searches in a list of devices: `find_by_guid(list_devices().value(), id)`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/guid.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/device.hpp"
#include "verbena/verbs/port_attributes.hpp"

namespace verbena::inline VERBENA_ABI {

// Errors of all functions: `unavailable` with ENODEV if no device matches; the message lists the
// devices with the property of the search. All functions are thread-safe.

/// Returns the device with this name: `mlx5_0`.
[[nodiscard]] result<device> find_by_name(std::span<const device> among, std::string_view name);
/// Returns the devices whose names match a pattern of fnmatch(3): `mlx5_*`; at least one.
[[nodiscard]] result<std::vector<device>> find_by_pattern(std::span<const device> among,
                                                          const std::string& pattern);
/// Returns the device with this GUID. The reserved GUID (all zero) matches no device.
[[nodiscard]] result<device> find_by_guid(std::span<const device> among, guid id);
/// Returns the first device that has a GID of this network interface: `eth0`. Opens devices and
/// reads their GID tables; skips devices that cannot be opened.
[[nodiscard]] result<device> find_by_interface(std::span<const device> among,
                                               std::string_view network_interface);
/// Returns the devices of this NUMA node; at least one.
[[nodiscard]] result<std::vector<device>> find_by_numa_node(std::span<const device> among,
                                                            unsigned node);
/// Returns the devices with an active port whose data rate is at least `gbps` Gbit/s; at least one.
/// Opens devices and queries their ports; skips devices that cannot be opened.
[[nodiscard]] result<std::vector<device>> find_by_speed(std::span<const device> among, double gbps);
/// Returns the devices with a port of this link layer; at least one. Opens devices and queries
/// their ports; skips devices that cannot be opened.
[[nodiscard]] result<std::vector<device>> find_by_link_layer(std::span<const device> among,
                                                             link_layer layer);

}  // namespace verbena::inline VERBENA_ABI
