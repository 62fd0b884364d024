// SPDX-License-Identifier: MIT
// Socket addresses of the connection manager's C interface, and the GIDs that they lead to.
#pragma once

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "softdev/cm/address.hpp"
#include "softdev/host/host.hpp"

namespace verbena::softdev {

/// Of the paths that the connection manager gives, as rdma-core's.
inline constexpr std::uint8_t cm_hop_limit = 64;

/// How long an address of that family is; 0 for one that is not supported, or none.
[[nodiscard]] socklen_t cm_address_length(const sockaddr* from) noexcept;
/// Empty for a family that is not supported, or no address.
[[nodiscard]] std::optional<cm::address> to_cm_address(const sockaddr* from) noexcept;
void to_sockaddr(const cm::address& from, sockaddr_storage& out) noexcept;
/// In network order; 0 for a family that is not supported.
[[nodiscard]] std::uint16_t cm_port_of(const sockaddr& from) noexcept;

/// The place in the GID table that stands for an address of this host: its own, else the first with
/// an IPv4 address, else the first.
[[nodiscard]] std::uint8_t cm_gid_index(host& home, const cm::address& of);
/// Where a multicast group is reached, as the kernel derives it from its IP address. `lid` is 0 on
/// Ethernet, where the GID is the address; on InfiniBand the subnet manager chooses it.
struct cm_group {
  ibv_gid gid;
  std::uint16_t lid;
};
[[nodiscard]] cm_group cm_group_of(const host& home, const cm::address& address) noexcept;
[[nodiscard]] ibv_gid cm_gid(const host& home, std::uint8_t index) noexcept;

}  // namespace verbena::softdev
