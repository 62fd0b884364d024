// SPDX-License-Identifier: MIT
// Which devices there are, and opening one of them.
#pragma once

#include <string_view>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device.hpp"

namespace verbena::inline VERBENA_ABI {

/// All devices: hardware first, in the kernel's order, then the software device; each once, even if
/// it is known to the system's library and to the software device's own.
///
/// The environment variable VERBENA_SOFTDEV decides about the software device: `on` (the default)
/// lists it last, `off` never, `only` lists nothing else. A side that is not there (no libibverbs,
/// no kernel module, no libverbena-soft.so) is left out, with a debug line to the log hook.
///
/// Errors: `invalid_argument` for another value of VERBENA_SOFTDEV; `unavailable` when no side that
/// was asked for is there; the message names the libraries and packages. An empty list is a
/// success. Blocks while libraries are loaded, at the first call. Thread-safe.
[[nodiscard]] result<std::vector<device>> list_devices();

/// The devices of one provider: ibv_get_device_list(3). Thread-safe.
[[nodiscard]] result<std::vector<device>> list_devices(const provider& from);

/// Opens the best device: hardware that has an ACTIVE port; else the software device; else the
/// first hardware that can be opened. Passing over hardware is a warning to the log hook.
///
/// Errors: those of list_devices(), `unavailable` when there is no device, or that of the last
/// device that could not be opened. Thread-safe.
[[nodiscard]] result<context> open_device();

/// Opens the device of this name: `soft0`, `mlx5_0`.
///
/// Errors: `unavailable` with ENODEV when there is none; the message names those that are there.
/// Otherwise those of list_devices() and device::open(). Thread-safe.
[[nodiscard]] result<context> open_device(std::string_view name);

}  // namespace verbena::inline VERBENA_ABI
