// SPDX-License-Identifier: MIT
// Pieces that several judgements share.
#pragma once

#include <string>
#include <string_view>

#include "verbena/diagnose/device_facts.hpp"
#include "verbena/diagnose/examine.hpp"
#include "verbena/diagnose/host_facts.hpp"

namespace verbena::inline VERBENA_ABI::diagnose::detail {

/// `soft0 port 1`.
[[nodiscard]] std::string port_name(const device_facts& device, port_number port);
/// The error's words, without what the finding says itself.
[[nodiscard]] std::string reason_of(const error& failed);
[[nodiscard]] std::string system_error_text(int code);
/// The interface of this name, or nullptr.
[[nodiscard]] const net_interface* find_interface(const host_facts& host, std::string_view name);
[[nodiscard]] device_kind kind_of(const host_facts& host, const device_facts& device);
/// Whether the port is up and the message that was tried arrived. iWARP is not tried.
[[nodiscard]] bool works(const port_facts& port);

/// The port that RDMA works best on.
struct chosen_port {
  const device_facts* device = nullptr;
  const port_facts* port = nullptr;
  device_kind kind = device_kind::soft;
};
/// Without a device if none works.
[[nodiscard]] chosen_port choose_port(const host_facts& host, const devices_facts& devices);

}  // namespace verbena::inline VERBENA_ABI::diagnose::detail
