// SPDX-License-Identifier: MIT
#include "softdev/host/wire_access.hpp"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "softdev/core/engine.hpp"
#include "softdev/wire/socket/udp_socket.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::softdev {
namespace {

/// The bytes of the longest headers that a packet with a payload can have, with the ICRC.
std::uint32_t all_header_bytes(const wire::network_address& peer) noexcept {
  constexpr wire::packet_opcode longest =
      wire::make_opcode(wire::packet_transport::rc, wire::operation::write_only_with_imm);
  return static_cast<std::uint32_t>(wire::network_bytes({.source = peer, .destination = peer}) +
                                    wire::format_of(longest).header_bytes() + wire::icrc_bytes);
}

std::string interface_name(std::uint32_t index) {
  std::array<char, IF_NAMESIZE> name{};
  return ::if_indextoname(index, name.data()) != nullptr ? name.data() : "";
}

/// The MTU of an interface; 0 if there is none of that name.
std::uint32_t mtu_of(const std::string& interface) {
  const unique_fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::copy_n(interface.data(), std::min<std::size_t>(interface.size(), IF_NAMESIZE - 1),
              request.ifr_name);
  const bool known = any && ::ioctl(any.get(), SIOCGIFMTU, &request) == 0;
  return known ? static_cast<std::uint32_t>(std::max(request.ifr_mtu, 0)) : 0;
}

error refused(int code, const queue_pair& which, const std::string& text) {
  return error::from_errno(code, "ibv_modify_qp",
                           "queue pair " + std::to_string(which.number()) + " of soft0", text);
}

}  // namespace

bool wire_access::lists(const std::string& what) const {
  return setting_.only.empty() || std::ranges::find(setting_.only, what) != setting_.only.end();
}

bool wire_access::permits(const gid_entry& own) const {
  return lists(wire::to_text(own.gid)) || lists(interface_name(own.interface_index));
}

std::vector<std::uint32_t> wire_access::listed_interfaces() const {
  std::vector<std::uint32_t> indexes;
  for (const std::string& each : setting_.only)
    if (const unsigned index = ::if_nametoindex(each.c_str()); index != 0) indexes.push_back(index);
  return indexes;
}

result<void> wire_access::connect(queue_pair& which, const wire_address& address,
                                  std::uint32_t payload_bytes) const {
  const std::string own = wire::to_text(address.own.gid);
  const std::string peer = wire::to_text(address.peer);
  if (!permits(address.own))
    return refused(EACCES, which,
                   "VERBENA_SOFTDEV_WIRE does not contain " + own +
                       ", the address of the source GID; add it or its interface");
  const bool is_address = wire::is_ipv4(address.own.gid);
  result<std::uint32_t> mtu = refused(EADDRNOTAVAIL, which, "");
  if (is_address) mtu = wire::find_route_mtu(address.own.gid, address.peer);
  if (!mtu && mtu.error().code() == EADDRNOTAVAIL)
    return refused(EADDRNOTAVAIL, which,
                   "the source GID " + own +
                       " is not an address of an interface; packets to other hosts need a source "
                       "GID with an IPv4 address (sgid_index 1 or more)");
  if (!mtu) return std::move(mtu).error();
  const std::uint32_t needed = payload_bytes + all_header_bytes(address.peer);
  if (needed > *mtu)
    return refused(EINVAL, which,
                   "the path MTU of " + std::to_string(payload_bytes) + " bytes needs packets of " +
                       std::to_string(needed) + " bytes, but the route to " + peer +
                       " has an MTU of " + std::to_string(*mtu) +
                       "; use a smaller path MTU, or a larger MTU of the interfaces");
  // An address of the list may be reached through each interface. Interfaces can have other indexes
  // now than at the last connection.
  const bool by_address = lists(own);
  if (!by_address) path_->permit_interfaces(listed_interfaces());
  return path_->connect(which, {.own = address.own.gid,
                                .peer = address.peer,
                                .arrival = by_address ? wire::arrival::any_interface
                                                      : wire::arrival::permitted_interfaces});
}

result<gid_bytes> wire_access::reach(const gid_bytes& peer, const gid_table::entries& gids) const {
  const std::string other = wire::to_text(peer);
  if (!on())
    return error::from_errno(EHOSTUNREACH, "rdma_resolve_addr", other,
                             "it is not an address of this host; VERBENA_SOFTDEV_WIRE=on on both "
                             "hosts permits connections to other hosts");
  VERBENA_TRY(const wire::network_address own, wire::find_source(peer));
  const auto known = std::ranges::find(gids, own, &gid_entry::gid);
  if (known == gids.end() || !permits(*known))
    return error::from_errno(EACCES, "rdma_resolve_addr", other,
                             "packets to it leave from " + wire::to_text(own) +
                                 ", which VERBENA_SOFTDEV_WIRE does not contain; add it or its "
                                 "interface");
  return own;
}

std::uint32_t wire_access::largest_payload(const gid_table::entries& gids) const {
  constexpr std::uint32_t largest = 4096;
  constexpr std::uint32_t smallest = 256;
  std::uint32_t payload = largest;
  for (const gid_entry& each : gids) {
    if (each.empty() || !wire::is_ipv4(each.gid) || !permits(each)) continue;
    const std::uint32_t mtu = mtu_of(interface_name(each.interface_index));
    if (mtu == 0) continue;
    while (payload > smallest && payload + all_header_bytes(each.gid) > mtu) payload /= 2;
  }
  return payload;
}

}  // namespace verbena::softdev
