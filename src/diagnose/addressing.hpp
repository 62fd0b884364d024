// SPDX-License-Identifier: MIT
// How a port is addressed and how large its packets are.
#pragma once

#include "verbena/diagnose/device_facts.hpp"
#include "verbena/diagnose/finding.hpp"
#include "verbena/diagnose/host_facts.hpp"

namespace verbena::inline VERBENA_ABI::diagnose::detail {

/// Which GID is chosen and why, and why not the others; on InfiniBand the LID.
[[nodiscard]] finding about_address(const host_facts& host, const device_facts& device,
                                    const port_facts& port);
/// The port's MTU beside its largest and its interface's, and what the peer must have.
[[nodiscard]] finding about_mtu(const host_facts& host, const device_facts& device,
                                const port_facts& port);

/// What the kernel counts for headers when it derives the MTU of RoCE from an interface's.
/// Sources: RXE_MAX_HDR_LENGTH of rxe; iboe_get_mtu() of include/rdma/ib_addr.h for adapters.
inline constexpr std::uint32_t roce_headers_of_rxe = 80;
inline constexpr std::uint32_t roce_headers_of_adapters = 96;

}  // namespace verbena::inline VERBENA_ABI::diagnose::detail
