// SPDX-License-Identifier: MIT
// Translates the socket addresses of rdma_cma.h to addresses of softdev/cm and to GIDs.
#pragma once

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>

#include "softdev/cm/address.hpp"
#include "softdev/host/host.hpp"

namespace verbena::softdev {

/// The hop limit of the paths of the connection manager, as in rdma-core.
inline constexpr std::uint8_t cm_hop_limit = 64;

/// Returns the length of an address; 0 if `from` is nullptr or its family is not supported.
[[nodiscard]] socklen_t cm_address_length(const sockaddr* from) noexcept;
/// Translates an address. Returns `nullopt` if `from` is nullptr or its family is not supported.
[[nodiscard]] std::optional<cm::address> to_cm_address(const sockaddr* from) noexcept;
void to_sockaddr(const cm::address& from, sockaddr_storage& out) noexcept;
/// Returns the port in network byte order; 0 if the family is not supported.
[[nodiscard]] std::uint16_t cm_port_of(const sockaddr& from) noexcept;

/// Returns the GID index for an address of this host: that of the address itself, else that of the
/// first IPv4 address, else that of the first entry.
[[nodiscard]] std::uint8_t cm_gid_index(host& home, const cm::address& of);
/// The GID and the LID of a multicast group. The GID is derived from the IP address as in the
/// kernel. `lid` is 0 on Ethernet; on InfiniBand, where a subnet manager would choose it, a hash of
/// the GID.
struct cm_group {
  ibv_gid gid;
  std::uint16_t lid;
};
[[nodiscard]] cm_group cm_group_of(const host& home, const cm::address& address) noexcept;
[[nodiscard]] ibv_gid cm_gid(const host& home, std::uint8_t index) noexcept;

}  // namespace verbena::softdev
