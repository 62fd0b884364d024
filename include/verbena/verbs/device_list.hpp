// SPDX-License-Identifier: MIT
// The list of devices, and opening one of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device.hpp"

namespace verbena::inline VERBENA_ABI {

/// Returns all devices: hardware in the kernel's order, then the software device. A device that
/// both libibverbs and the software device's library list appears once.
///
/// The environment variable VERBENA_SOFTDEV selects the software device: `on` (the default) lists
/// it last, `off` omits it, `only` omits all others. If libibverbs, the kernel modules or
/// libverbena-soft.so are missing, their devices are omitted, with a line at debug level.
///
/// Errors: `invalid_argument` for any other value of VERBENA_SOFTDEV; `unavailable` if no library
/// can be used; the message names the libraries and packages. An empty list is not an error. The
/// first call loads the libraries. Allocates; may block in the kernel. Thread-safe.
[[nodiscard]] result<std::vector<device>> list_devices();

/// Returns the devices of one provider: ibv_get_device_list(3). Allocates; may block in the kernel.
/// Thread-safe. Errors: the errno of the verb.
[[nodiscard]] result<std::vector<device>> list_devices(const provider& from);

/// The devices that open_device() may choose from.
enum class devices : std::uint8_t {
  any,            ///< adapters with an active port, then rxe and siw, then soft0
  hardware_only,  ///< adapters; neither soft0 nor the kernel's rxe and siw
};

/// Opens a device: the first adapter with an active port. If no adapter has an active port and
/// `accepted` is `any`, opens the first software device of the kernel (rxe or siw) with an active
/// port, otherwise soft0. If there is no such device, opens the first adapter.
///
/// If a software device or an adapter without an active port is opened, or if other devices were
/// skipped, logs the reasons at warning level, once per process. If VERBENA_SOFTDEV is `only`, does
/// not log.
///
/// Errors: those of list_devices(); `unavailable` if there is no accepted device; the error of the
/// last device that could not be opened. Allocates; may block in the kernel. Thread-safe.
[[nodiscard]] result<context> open_device(devices accepted = devices::any);

/// Opens the device with this name: `soft0`, `mlx5_0`.
///
/// Errors: `unavailable` with ENODEV if there is no such device; the message lists the devices.
/// Otherwise those of list_devices() and device::open(). Allocates; may block in the kernel.
/// Thread-safe.
[[nodiscard]] result<context> open_device(std::string_view name);

}  // namespace verbena::inline VERBENA_ABI
