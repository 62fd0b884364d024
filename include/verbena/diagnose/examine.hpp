// SPDX-License-Identifier: MIT
// Derives findings from facts: their meaning and the remedy. Pure functions of the facts, which
// allocate and do not block.
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

/// The kind of a device, in ascending order of preference.
enum class device_kind : std::uint8_t {
  soft,      ///< soft0
  kernel,    ///< rxe or siw: a software device of the kernel
  hardware,  ///< an adapter
};
/// Returns `software device`, `software device of the kernel` or `hardware`.
[[nodiscard]] const char* to_string(device_kind of) noexcept;

/// A device and port on which RDMA works. Threads: immutable value.
struct usable_port {
  std::string device;                    ///< its name
  port_number port;                      ///< of the device
  device_kind kind = device_kind::soft;  ///< kind of the device
};

/// Returns the best working port, or `nullopt`. Hardware is preferred to rxe and siw, and rxe and
/// siw are preferred to soft0.
[[nodiscard]] std::optional<usable_port> best_usable(const host_facts& host,
                                                     const devices_facts& devices);

/// Checks the kernel: modules, devices, device files, drivers of libibverbs.
[[nodiscard]] std::vector<finding> examine_kernel(const host_facts& host,
                                                  const devices_facts& devices);
/// Checks each device and port: state, GID, MTU, test message.
[[nodiscard]] std::vector<finding> examine_ports(const host_facts& host,
                                                 const devices_facts& devices);
/// Checks the limits of this process: locked memory, files, control groups, containers, fork.
[[nodiscard]] std::vector<finding> examine_process(const host_facts& host);
/// Checks the software device, and how to attach rxe or siw to the interfaces of this host.
[[nodiscard]] std::vector<finding> examine_software(const host_facts& host,
                                                    const devices_facts& devices);
/// Checks the endpoint of a peer against the best port of this host.
[[nodiscard]] std::vector<finding> examine_peer(const host_facts& host,
                                                const devices_facts& devices, const endpoint& peer);

/// Runs all checks except examine_peer(), in the order of their declarations.
[[nodiscard]] std::vector<finding> examine(const host_facts& host, const devices_facts& devices);

}  // namespace verbena::inline VERBENA_ABI::diagnose
