// SPDX-License-Identifier: MIT
// Checks the address and the MTU of a port.
#pragma once

#include "verbena/diagnose/device_facts.hpp"
#include "verbena/diagnose/finding.hpp"
#include "verbena/diagnose/host_facts.hpp"

namespace verbena::inline VERBENA_ABI::diagnose::detail {

/// Describes the chosen GID, the reason, and the other GIDs; on InfiniBand the LID.
[[nodiscard]] finding about_address(const host_facts& host, const device_facts& device,
                                    const port_facts& port);
/// Compares the MTU of the port with its maximum and with the MTU of the interface.
[[nodiscard]] finding about_mtu(const host_facts& host, const device_facts& device,
                                const port_facts& port);

/// Bytes that the kernel reserves for headers when it derives the RoCE MTU from the interface MTU.
/// Sources: RXE_MAX_HDR_LENGTH of rxe; iboe_get_mtu() of include/rdma/ib_addr.h for adapters.
inline constexpr std::uint32_t roce_headers_of_rxe = 80;
inline constexpr std::uint32_t roce_headers_of_adapters = 96;

}  // namespace verbena::inline VERBENA_ABI::diagnose::detail
