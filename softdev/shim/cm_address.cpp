// SPDX-License-Identifier: MIT
#include "softdev/shim/cm_address.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace verbena::softdev {
namespace {

constexpr gid_bytes mapped_prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0};

bool is_mapped(const gid_entry& entry) noexcept {
  return std::equal(mapped_prefix.begin(), mapped_prefix.begin() + 12, entry.gid.begin());
}

}  // namespace

socklen_t cm_address_length(const sockaddr* from) noexcept {
  if (from == nullptr) return 0;
  if (from->sa_family == AF_INET) return sizeof(sockaddr_in);
  return from->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

std::optional<cm::address> to_cm_address(const sockaddr* from) noexcept {
  cm::address out;
  if (cm_address_length(from) == sizeof(sockaddr_in)) {
    sockaddr_in address{};
    std::memcpy(&address, from, sizeof address);
    out.family = cm::address_family::ipv4;
    out.port = ntohs(address.sin_port);
    std::memcpy(out.bytes.data(), &address.sin_addr, sizeof address.sin_addr);
    return out;
  }
  if (cm_address_length(from) != sizeof(sockaddr_in6)) return std::nullopt;
  sockaddr_in6 address{};
  std::memcpy(&address, from, sizeof address);
  out.family = cm::address_family::ipv6;
  out.port = ntohs(address.sin6_port);
  out.scope = address.sin6_scope_id;
  std::memcpy(out.bytes.data(), &address.sin6_addr, sizeof address.sin6_addr);
  return out;
}

void to_sockaddr(const cm::address& from, sockaddr_storage& out) noexcept {
  out = {};
  if (from.family == cm::address_family::ipv4) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(from.port);
    std::memcpy(&address.sin_addr, from.bytes.data(), sizeof address.sin_addr);
    std::memcpy(&out, &address, sizeof address);
  } else if (from.family == cm::address_family::ipv6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(from.port);
    address.sin6_scope_id = from.scope;
    std::memcpy(&address.sin6_addr, from.bytes.data(), sizeof address.sin6_addr);
    std::memcpy(&out, &address, sizeof address);
  }
}

std::uint16_t cm_port_of(const sockaddr& from) noexcept {
  const auto known = to_cm_address(&from);
  return known ? htons(known->port) : std::uint16_t{0};
}

std::uint8_t cm_gid_index(host& home, const cm::address& of) {
  const gid_bytes wanted = cm::gid_of(of);
  const bool looks_again = home.persona().kind == persona_kind::roce && !cm::is_loopback(of) &&
                           of.family != cm::address_family::none &&
                           !home.adapter().gids().contains(wanted);
  if (looks_again) home.adapter().refresh_gids();
  const gid_table::entries all = home.adapter().gids().all();
  // Several interfaces can have the same link-local address.
  auto found = std::ranges::find(all, gid_entry{wanted, of.scope});
  if (found == all.end()) found = std::ranges::find(all, wanted, &gid_entry::gid);
  if (found == all.end()) found = std::ranges::find_if(all, is_mapped);
  if (found == all.end())
    found = std::ranges::find_if(all, [](const gid_entry& each) { return !each.empty(); });
  return found == all.end() ? std::uint8_t{0} : static_cast<std::uint8_t>(found - all.begin());
}

cm_group cm_group_of(const host& home, const cm::address& address) noexcept {
  cm_group out{};
  if (home.persona().kind != persona_kind::infiniband) {
    std::ranges::copy(cm::gid_of(address), out.gid.raw);
    return out;
  }
  // The mapping of IPoIB (RFC 4391), but with the signature byte of groups of the connection
  // manager: 0x01 instead of 0x1b.
  const bool ipv4 = address.family == cm::address_family::ipv4;
  const std::uint8_t prefix[] = {0xff, 0x12, ipv4 ? std::uint8_t{0x40} : std::uint8_t{0x60},
                                 0x01, 0xff, 0xff};
  std::ranges::copy(prefix, out.gid.raw);
  if (ipv4) {
    std::copy_n(address.bytes.begin(), 4, out.gid.raw + 12);
    out.gid.raw[12] &= 0x0fU;
  } else {
    std::copy_n(address.bytes.begin() + 6, 10, out.gid.raw + 6);
  }
  constexpr std::uint16_t first_lid = 0xc000;
  constexpr unsigned lids = 0x3fff;
  unsigned sum = 0;
  for (const std::uint8_t byte : out.gid.raw) sum = (sum * 31 + byte) % lids;
  out.lid = static_cast<std::uint16_t>(first_lid + sum);
  return out;
}

ibv_gid cm_gid(const host& home, std::uint8_t index) noexcept {
  ibv_gid out{};
  const gid_entry entry = home.adapter().gids().at(index);
  std::ranges::copy(entry.gid, out.raw);
  return out;
}

}  // namespace verbena::softdev
