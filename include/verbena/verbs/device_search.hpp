// SPDX-License-Identifier: MIT
// Finding one device among those of list_devices(): `find_by_guid(list_devices().value(), id)`.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "verbena/base/guid.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/device.hpp"

namespace verbena::inline VERBENA_ABI {

// Errors of all: `unavailable` with ENODEV when there is none; the message names what there is.
// Thread-safe.

/// The device of this name: `mlx5_0`.
[[nodiscard]] result<device> find_by_name(std::span<const device> among, std::string_view name);
/// The device with this identifier. Error also for the reserved one (all zero), which means none.
[[nodiscard]] result<device> find_by_guid(std::span<const device> among, guid id);
/// The first device one of whose ports has a GID of this network interface: `eth0`. Opens devices
/// and reads their GID tables; devices that cannot be opened are passed over.
[[nodiscard]] result<device> find_by_interface(std::span<const device> among,
                                               std::string_view network_interface);
/// The devices that are attached to this NUMA node of the host; at least one.
[[nodiscard]] result<std::vector<device>> find_by_numa_node(std::span<const device> among,
                                                            unsigned node);

}  // namespace verbena::inline VERBENA_ABI
