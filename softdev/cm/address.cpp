// SPDX-License-Identifier: MIT
#include "softdev/cm/address.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace verbena::softdev::cm {
namespace {

constexpr std::array<std::uint8_t, 16> no_bytes{};
constexpr std::array<std::uint8_t, 16> loopback_ipv6 = {0, 0, 0, 0, 0, 0, 0, 0,
                                                        0, 0, 0, 0, 0, 0, 0, 1};

bool is_address_of(const ifaddrs& interface, const address& value) noexcept {
  const sockaddr* const has = interface.ifa_addr;
  if (has == nullptr) return false;
  if (value.family == address_family::ipv4 && has->sa_family == AF_INET) {
    const auto& own = reinterpret_cast<const sockaddr_in*>(has)->sin_addr;
    return std::memcmp(&own, value.bytes.data(), sizeof own) == 0;
  }
  if (value.family != address_family::ipv6 || has->sa_family != AF_INET6) return false;
  const auto& own = *reinterpret_cast<const sockaddr_in6*>(has);
  const bool here = value.scope == 0 || own.sin6_scope_id == 0 || own.sin6_scope_id == value.scope;
  return here && std::memcmp(&own.sin6_addr, value.bytes.data(), sizeof own.sin6_addr) == 0;
}

}  // namespace

bool is_wildcard(const address& value) noexcept { return value.bytes == no_bytes; }

bool is_multicast(const address& value) noexcept {
  if (value.family == address_family::ipv4) return (value.bytes[0] & 0xf0U) == 0xe0;
  return value.family == address_family::ipv6 && value.bytes[0] == 0xff;
}

bool is_loopback(const address& value) noexcept {
  if (value.family == address_family::ipv4) return value.bytes[0] == 127;
  return value.family == address_family::ipv6 && value.bytes == loopback_ipv6;
}

bool same_host(const address& one, const address& other) noexcept {
  return one.family == other.family && one.bytes == other.bytes;
}

bool is_link_local(const address& value) noexcept {
  return value.family == address_family::ipv6 && value.bytes[0] == 0xfe &&
         (value.bytes[1] & 0xc0U) == 0x80;
}

bool same_address(const address& one, const address& other) noexcept {
  return same_host(one, other) && (!is_link_local(one) || one.scope == other.scope);
}

address with_port(address value, std::uint16_t port) noexcept {
  value.port = port;
  return value;
}

std::array<std::uint8_t, 16> gid_of(const address& value) noexcept {
  if (value.family != address_family::ipv4) return value.bytes;
  std::array<std::uint8_t, 16> out{};
  out[10] = out[11] = 0xff;
  std::copy_n(value.bytes.begin(), 4, out.begin() + 12);
  return out;
}

address loopback_of(address_family family) noexcept {
  address out{.family = family};
  if (family == address_family::ipv4) out.bytes = {127, 0, 0, 1};
  if (family == address_family::ipv6) out.bytes = loopback_ipv6;
  return out;
}

std::optional<address> find_local(const address& value) noexcept {
  if (is_loopback(value)) return value;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return std::nullopt;
  const ifaddrs* each = all;
  while (each != nullptr && !is_address_of(*each, value)) each = each->ifa_next;
  std::optional<address> found;
  if (each != nullptr) {
    found = value;
    if (is_link_local(value) && value.scope == 0)
      found->scope = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_scope_id;
  }
  ::freeifaddrs(all);
  return found;
}

}  // namespace verbena::softdev::cm
