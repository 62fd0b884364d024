// SPDX-License-Identifier: MIT
// Address vectors of the C interface (ibv_ah_attr) and what the core makes of them.
#pragma once

#include <infiniband/verbs.h>

#include "softdev/core/attributes.hpp"
#include "softdev/core/datagram.hpp"
#include "softdev/host/host.hpp"

namespace verbena::softdev {

/// The errno that refuses the address of a connection by the path `by`, or 0. EINVAL: no port of
/// this device, an empty place of the GID table, an address without a GID, which Ethernet needs, or
/// without a LID, which InfiniBand needs. ENETUNREACH: there is no path to the destination.
[[nodiscard]] int check_address(host& home, const ibv_ah_attr& address, path_to_peer by);
/// The same for addresses whose destination must be this host. Asks the kernel for an address that
/// the table lacks.
[[nodiscard]] int check_address(host& home, const ibv_ah_attr& address);

/// The bytes of a GID, as the device has them.
[[nodiscard]] gid_bytes to_gid_bytes(const ibv_gid& gid) noexcept;

/// As check_address for datagrams, which may go to another host or to a multicast group, too. The
/// first address of a group makes this process known to others, or gives the errno that says why
/// not. `wire_mtu` becomes the path MTU (ibv_mtu) if the destination is reached by the wire, else
/// 0; if it cannot be reached, returns the errno of wire_access::find_datagram_mtu, and the log
/// says why.
[[nodiscard]] int check_datagram_address(host& home, const ibv_ah_attr& address,
                                         std::uint8_t& wire_mtu);

/// Lets a queue pair of UD that is about to become ready to receive have datagrams of other hosts.
/// 0, or the errno of wire_access::accept_datagrams; then the log says why.
[[nodiscard]] int accept_datagrams(host& home, queue_pair& which);

/// Sets where the requests of a connection go. Asks the kernel for an address that the table lacks.
void set_route(host& home, const ibv_ah_attr& address, queue_pair_attributes& out);

/// Prepares a connection by the wire that is about to become ready to receive with a path MTU of
/// that code (ibv_mtu). 0, or the errno of wire_access::connect; then the log says why.
[[nodiscard]] int connect_by_wire(host& home, queue_pair& which, const ibv_ah_attr& address,
                                  std::uint8_t path_mtu);

/// The largest path MTU of the port: packets to other hosts must fit the interfaces. Within the
/// host there is no such limit.
[[nodiscard]] ibv_mtu active_mtu(const host& home);

/// Tells the recorder of packets, if there is one, where the requests of `connected` go.
void record_route(host& home, const queue_pair& connected, const ibv_ah_attr& address);

/// The address in the core's terms. `wire_mtu`: see check_datagram_address, which gave 0.
[[nodiscard]] datagram_address to_datagram_address(const host& home, const ibv_ah_attr& address,
                                                   std::uint8_t wire_mtu) noexcept;

}  // namespace verbena::softdev
