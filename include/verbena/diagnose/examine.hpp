// SPDX-License-Identifier: MIT
// Judges facts: what they mean, and what to do. Pure functions; the same facts give the same words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verbena/diagnose/device_facts.hpp"
#include "verbena/diagnose/finding.hpp"
#include "verbena/diagnose/host_facts.hpp"
#include "verbena/verbs/endpoint.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {

/// What executes verbs, from least to most.
enum class device_kind : std::uint8_t {
  soft,      ///< soft0
  kernel,    ///< rxe or siw: software of the kernel's
  hardware,  ///< an adapter
};
/// `software device`, `software device of the kernel`, `hardware`.
[[nodiscard]] const char* to_string(device_kind of) noexcept;

/// A device and port on which RDMA works here.
struct usable_port {
  std::string device;                    ///< its name
  port_number port;                      ///< of the device
  device_kind kind = device_kind::soft;  ///< what executes its verbs
};

/// The best port that works; nothing if none does. Hardware comes before rxe and siw, these before
/// soft0.
[[nodiscard]] std::optional<usable_port> best_usable(const host_facts& host,
                                                     const devices_facts& devices);

/// The kernel's side: modules, devices, their files, drivers of libibverbs.
[[nodiscard]] std::vector<finding> examine_kernel(const host_facts& host,
                                                  const devices_facts& devices);
/// Each device and port: state, GID, MTU, the message that was tried.
[[nodiscard]] std::vector<finding> examine_ports(const host_facts& host,
                                                 const devices_facts& devices);
/// Limits of this process: locked memory, files, control groups, containers, fork.
[[nodiscard]] std::vector<finding> examine_process(const host_facts& host);
/// The software device, and how to attach rxe or siw to this host's interfaces.
[[nodiscard]] std::vector<finding> examine_software(const host_facts& host,
                                                    const devices_facts& devices);
/// What the peer's endpoint means for the best port here.
[[nodiscard]] std::vector<finding> examine_peer(const host_facts& host,
                                                const devices_facts& devices, const endpoint& peer);

/// All of these but the peer's, in this order.
[[nodiscard]] std::vector<finding> examine(const host_facts& host, const devices_facts& devices);

}  // namespace verbena::inline VERBENA_ABI::diagnose
