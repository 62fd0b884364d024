// SPDX-License-Identifier: MIT
// Functions that several checks share.
#pragma once

#include <string>
#include <string_view>

#include "verbena/diagnose/device_facts.hpp"
#include "verbena/diagnose/examine.hpp"
#include "verbena/diagnose/host_facts.hpp"

namespace verbena::inline VERBENA_ABI::diagnose::detail {

/// Returns `soft0 port 1`.
[[nodiscard]] std::string port_name(const device_facts& device, port_number port);
/// Returns the message of an error.
[[nodiscard]] std::string reason_of(const error& failed);
[[nodiscard]] std::string system_error_text(int code);
/// Returns the interface of this name, or nullptr.
[[nodiscard]] const net_interface* find_interface(const host_facts& host, std::string_view name);
[[nodiscard]] device_kind kind_of(const host_facts& host, const device_facts& device);
/// Returns whether the port is active and its test message did not fail. iWARP is not tested.
[[nodiscard]] bool works(const port_facts& port);

/// The result of choose_port().
struct chosen_port {
  const device_facts* device = nullptr;
  const port_facts* port = nullptr;
  device_kind kind = device_kind::soft;
};
/// Returns the best working port, without a device if no port works.
[[nodiscard]] chosen_port choose_port(const host_facts& host, const devices_facts& devices);

}  // namespace verbena::inline VERBENA_ABI::diagnose::detail
