// SPDX-License-Identifier: MIT
// Checks address vectors of the C interface (ibv_ah_attr) and translates them for the core.
#pragma once

#include <infiniband/verbs.h>

#include "softdev/core/attributes.hpp"
#include "softdev/core/datagram.hpp"
#include "softdev/host/host.hpp"

namespace verbena::softdev {

/// Checks the address of a connection over the path `by`. Returns 0 or an errno. EINVAL: the port
/// is not one of this device, the source GID index is empty, or the address lacks the GID
/// (Ethernet) or the LID (InfiniBand) of the destination. ENETUNREACH: there is no path to the
/// destination.
[[nodiscard]] int check_address(host& home, const ibv_ah_attr& address, path_to_peer by);
/// Checks an address whose destination must be this host. Refreshes the GID table if it lacks the
/// destination.
[[nodiscard]] int check_address(host& home, const ibv_ah_attr& address);

/// Converts a GID to the type of the device.
[[nodiscard]] gid_bytes to_gid_bytes(const ibv_gid& gid) noexcept;

/// Checks an address of datagrams, whose destination may also be another host or a multicast group.
/// Returns 0 or an errno. The first address of a group announces this process to other processes;
/// if that fails, returns its errno. Sets `wire_mtu` to the path MTU (ibv_mtu) if the destination
/// is reached over the wire, else to 0. If another host cannot be reached, returns the errno of
/// wire_access::find_datagram_mtu and logs the reason.
[[nodiscard]] int check_datagram_address(host& home, const ibv_ah_attr& address,
                                         std::uint8_t& wire_mtu);

/// Enables a UD queue pair to receive datagrams of other hosts. Call it before the transition to
/// RTR. Returns 0, or the errno of wire_access::accept_datagrams and logs the reason.
[[nodiscard]] int accept_datagrams(host& home, queue_pair& which);

/// Sets the path and the destination LID of a connection. On Ethernet, refreshes the GID table if
/// it lacks the destination.
void set_route(host& home, const ibv_ah_attr& address, queue_pair_attributes& out);

/// Prepares a connection over the wire with the path MTU `path_mtu` (ibv_mtu). Call it before the
/// transition to RTR. Returns 0, or the errno of wire_access::connect and logs the reason.
[[nodiscard]] int connect_by_wire(host& home, queue_pair& which, const ibv_ah_attr& address,
                                  std::uint8_t path_mtu);

/// Returns the largest path MTU of the port. Packets to other hosts must fit the MTU of the
/// interfaces. Without the wire, returns 4096 bytes.
[[nodiscard]] ibv_mtu active_mtu(const host& home);

/// Passes the route of `connected` to the packet recorder, if there is one.
void record_route(host& home, const queue_pair& connected, const ibv_ah_attr& address);

/// Translates an address that check_datagram_address has accepted. `wire_mtu` is the value that
/// check_datagram_address has set.
[[nodiscard]] datagram_address to_datagram_address(const host& home, const ibv_ah_attr& address,
                                                   std::uint8_t wire_mtu) noexcept;

}  // namespace verbena::softdev
