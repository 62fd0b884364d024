// SPDX-License-Identifier: MIT
#include "softdev/host/wire_access.hpp"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "softdev/core/engine.hpp"
#include "softdev/host/warn_once.hpp"
#include "softdev/wire/socket/udp_socket.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::softdev {
namespace {

constexpr std::uint8_t most_mtu_code = 5;  ///< 4096 bytes

/// Returns the bytes of the longest headers of a packet with a payload, including the ICRC.
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

/// Returns the MTU of an interface; 0 if no interface has that name.
std::uint32_t mtu_of(const std::string& interface) {
  const unique_fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::copy_n(interface.data(), std::min<std::size_t>(interface.size(), IF_NAMESIZE - 1),
              request.ifr_name);
  const bool known = any && ::ioctl(any.get(), SIOCGIFMTU, &request) == 0;
  return known ? static_cast<std::uint32_t>(std::max(request.ifr_mtu, 0)) : 0;
}

}  // namespace

struct failing_call {
  const char* verb;
  std::string object;

  [[nodiscard]] error with(int code, const std::string& text) const {
    return error::from_errno(code, verb, object, text);
  }
};

namespace {

/// Returns the interface of a link-local address, or 0.
std::uint32_t scope_of(const wire_address& which) noexcept {
  return wire::scope_of(which.own.gid, which.peer, which.own.interface_index);
}

bool is_address_of_interface(const gid_entry& own) {
  return wire::find_route_mtu(
             {.source = own.gid, .destination = own.gid, .interface = own.interface_index})
      .has_value();
}

void warn_of_group(const std::optional<error>& failure) {
  if (failure)
    warn_once("soft0: datagrams of other hosts to a multicast group do not arrive: " +
              failure->message());
}

failing_call modification_of(const queue_pair& which) {
  return {"ibv_modify_qp", "queue pair " + std::to_string(which.number()) + " of soft0"};
}

}  // namespace

/// The bytes of a packet that are not payload.
std::uint32_t wire_access::overhead(const wire::network_address& peer) const noexcept {
  return all_header_bytes(peer) + trailer_bytes_;
}

/// The largest path MTU that fits packets of `route_mtu` bytes; 0 if 256 bytes do not fit.
std::uint8_t wire_access::largest_mtu_code(const wire::network_address& peer,
                                           std::uint32_t route_mtu) const noexcept {
  std::uint8_t code = most_mtu_code;
  while (code > 0 && bytes_of_mtu(code) + overhead(peer) > route_mtu) --code;
  return code;
}

/// Returns false for groups, and for the IPv6 addresses without a host: :: and ::1.
bool wire_access::is_host_address(const gid_bytes& which) noexcept {
  if (wire::is_ipv4(which) || is_multicast(which)) return !is_multicast(which);
  const auto front = std::span(which).first<15>();
  return std::ranges::any_of(front, [](std::uint8_t each) { return each != 0; });
}

/// Returns the MTU of the route.
result<std::uint32_t> wire_access::find_route(const failing_call& by,
                                              const wire_address& address) const {
  const std::string own = wire::to_text(address.own.gid);
  if (!own_.permits(address.own))
    return by.with(EACCES, "VERBENA_SOFTDEV_WIRE does not contain " + own +
                               ", the address of the source GID; add it or its interface");
  const bool one_version = wire::is_ipv4(address.own.gid) == wire::is_ipv4(address.peer);
  // If the versions differ, only the source is checked.
  auto mtu = wire::find_route_mtu({.source = address.own.gid,
                                   .destination = one_version ? address.peer : address.own.gid,
                                   .interface = scope_of(address)});
  if (!mtu && mtu.error().code() == EADDRNOTAVAIL)
    return by.with(
        EADDRNOTAVAIL,
        "no interface of this host has the address of the source GID " + own +
            ", or its duplicate address detection is still in progress (\"tentative\" in "
            "the output of \"ip address\"); wait until it ends, or choose the sgid_index "
            "of an assigned address (1 or more)");
  if (!one_version)
    return by.with(EADDRNOTAVAIL, "the source GID " + own + " and the destination GID " +
                                      wire::to_text(address.peer) +
                                      " are addresses of IPv4 and IPv6; choose a source GID of the "
                                      "same kind (sgid_index)");
  return mtu;
}

bool wire_access::reaches_hosts_from(const gid_entry& own) const {
  if (!on() || own.empty() || !own_.permits(own)) return false;
  return is_address_of_interface(own);
}

result<void> wire_access::connect(queue_pair& which, const wire_address& address,
                                  std::uint32_t payload_bytes) const {
  const failing_call by = modification_of(which);
  VERBENA_TRY(const std::uint32_t mtu, find_route(by, address));
  const std::uint32_t needed = payload_bytes + overhead(address.peer);
  if (needed > mtu)
    return by.with(EINVAL, "the path MTU of " + std::to_string(payload_bytes) +
                               " bytes needs packets of " + std::to_string(needed) +
                               " bytes, but the route to " + wire::to_text(address.peer) +
                               " has an MTU of " + std::to_string(mtu) +
                               "; use a smaller path MTU, or a larger MTU of the interfaces");
  // The indexes of interfaces may have changed since the last connection.
  const bool by_address = own_.contains(address.own.gid);
  if (auto listed = by_address ? std::nullopt : own_.listed_interfaces())
    path_->permit_interfaces(*std::move(listed));
  return path_->connect(which, {.own = address.own.gid,
                                .peer = address.peer,
                                .arrival = by_address ? wire::arrival::any_interface
                                                      : wire::arrival::permitted_interfaces,
                                .traffic_class = address.traffic_class,
                                .interface = scope_of(address)});
}

result<gid_bytes> wire_access::reach(const gid_bytes& peer, std::uint32_t interface,
                                     const std::optional<gid_bytes>& own,
                                     const gid_table::entries& gids) const {
  gid_bytes source{};
  if (own) {
    source = *own;
  } else {
    VERBENA_TRY(source, wire::find_source(peer, interface));
  }
  const bool scoped = wire::scope_of(source, peer, interface) != 0;
  const auto known = std::ranges::find_if(gids, [&](const gid_entry& each) {
    return each.gid == source && (!scoped || each.interface_index == interface);
  });
  if (known == gids.end() || !own_.permits(*known))
    return error::from_errno(EACCES, "rdma_resolve_addr", wire::to_text(peer),
                             "packets to it leave from " + wire::to_text(source) +
                                 ", which VERBENA_SOFTDEV_WIRE does not contain; add it or its "
                                 "interface");
  return source;
}

result<void> wire_access::accept_datagrams(queue_pair& which) const {
  if (!on()) return {};
  return path_->connect(which, {.any = true});
}

result<std::uint8_t> wire_access::find_datagram_mtu(const wire_address& address) const {
  const failing_call by{"ibv_create_ah", "soft0"};
  VERBENA_TRY(const std::uint32_t mtu, find_route(by, address));
  const std::uint8_t code = largest_mtu_code(address.peer, mtu);
  if (code != 0) return code;
  return by.with(EINVAL, "the route to " + wire::to_text(address.peer) + " has an MTU of " +
                             std::to_string(mtu) + ", but packets with 256 bytes of payload need " +
                             std::to_string(bytes_of_mtu(1) + overhead(address.peer)) +
                             "; use a larger MTU of the interfaces");
}

std::uint8_t wire_access::find_group_mtu(const wire_address& address) const {
  const gid_bytes& own = address.own.gid;
  if (!on() || wire::is_ipv4(own) != wire::is_ipv4(address.peer) || !own_.permits(address.own))
    return 0;
  // Datagrams to a group need no route, only an interface with the address.
  if (!is_address_of_interface(address.own) ||
      address.own.interface_index == wire::loopback_interface)
    return 0;
  return largest_mtu_code(address.peer, mtu_of(interface_name(address.own.interface_index)));
}

/// Joins a group at all interfaces. Sets `failure` to the last error. Returns nullopt if this host
/// could not join the group at any of them.
std::optional<wire::group_socket> wire_access::open_group(const gid_bytes& group,
                                                          std::optional<error>& failure) const {
  auto socket = wire::group_socket::open(group);
  if (!socket) {
    failure = std::move(socket).error();
    return std::nullopt;
  }
  const auto interfaces = own_.interfaces_for_groups(wire::is_ipv4(group));
  bool is_member = interfaces.empty();
  for (const std::uint32_t each : interfaces) {
    const int code = socket->join(each);
    is_member |= code == 0;
    if (code != 0)
      failure = error::from_errno(code, "setsockopt",
                                  "group " + wire::to_text(group) + " at " + interface_name(each),
                                  code == ENOBUFS ? "the limit of the kernel is reached; raise "
                                                    "net.ipv4.igmp_max_memberships"
                                                  : "");
  }
  if (!is_member) return std::nullopt;
  return *std::move(socket);
}

void wire_access::join_group(const gid_bytes& group) {
  if (!on()) return;
  std::optional<error> failure;
  {
    const std::lock_guard lock(changes_);
    auto& membership = groups_[group];
    if (!membership) membership = open_group(group, failure);
  }
  warn_of_group(failure);  // without the lock, because the log hook may use the device
}

void wire_access::addresses_changed() noexcept {
  if (!on()) return;
  try {
    if (auto listed = own_.listed_interfaces()) path_->permit_interfaces(*std::move(listed));
    std::optional<error> failure;
    {
      const std::lock_guard lock(changes_);
      // The new memberships begin before the old ones end.
      for (auto& [group, membership] : groups_)
        if (auto renewed = open_group(group, failure)) membership = std::move(renewed);
    }
    warn_of_group(failure);
  } catch (const std::bad_alloc&) {
  }
}

void wire_access::leave_group(const gid_bytes& group) {
  const std::lock_guard lock(changes_);
  groups_.erase(group);
}

void wire_access::abandon_after_fork() noexcept {
  if (fork_lock_)
    for (auto& [group, socket] : groups_) socket.reset();
  continue_after_fork();
}

std::uint32_t wire_access::largest_payload(const gid_table::entries& gids) const {
  std::uint8_t code = most_mtu_code;
  // Every interface has a link-local address, even if it does not lead to other hosts.
  for (const gid_entry& each : gids) {
    if (each.empty() || wire::is_link_local(each.gid) || !own_.permits(each)) continue;
    const std::uint32_t mtu = mtu_of(interface_name(each.interface_index));
    if (mtu != 0) code = std::min(code, largest_mtu_code(each.gid, mtu));
  }
  return bytes_of_mtu(std::max<std::uint8_t>(code, 1));
}

}  // namespace verbena::softdev
