// SPDX-License-Identifier: MIT
#include "softdev/cm/address.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "verbena/base/fd.hpp"

namespace verbena::softdev::cm {
namespace {

constexpr std::array<std::uint8_t, 16> no_bytes{};
constexpr std::array<std::uint8_t, 16> loopback_ipv6 = {0, 0, 0, 0, 0, 0, 0, 0,
                                                        0, 0, 0, 0, 0, 0, 0, 1};

// What the kernel would send from, to reach `which`: no packet leaves.
bool is_reached_from_itself(const sockaddr* to, socklen_t length, sockaddr_storage& from) noexcept {
  const unique_fd socket(::socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), to, length) != 0) return false;
  socklen_t room = sizeof from;
  return ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&from), &room) == 0;
}

}  // namespace

bool is_wildcard(const address& which) noexcept { return which.bytes == no_bytes; }

bool is_loopback(const address& which) noexcept {
  if (which.family == address_family::ipv4) return which.bytes[0] == 127;
  return which.family == address_family::ipv6 && which.bytes == loopback_ipv6;
}

bool same_host(const address& one, const address& other) noexcept {
  return one.family == other.family && one.bytes == other.bytes;
}

address with_port(address which, std::uint16_t port) noexcept {
  which.port = port;
  return which;
}

address loopback_of(address_family family) noexcept {
  address out{.family = family};
  if (family == address_family::ipv4) out.bytes = {127, 0, 0, 1};
  if (family == address_family::ipv6) out.bytes = loopback_ipv6;
  return out;
}

bool is_local(const address& which) noexcept {
  if (is_loopback(which)) return true;
  sockaddr_storage from{};
  constexpr std::uint16_t any_port = 9;
  if (which.family == address_family::ipv4) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(any_port);
    std::memcpy(&to.sin_addr, which.bytes.data(), sizeof to.sin_addr);
    return is_reached_from_itself(reinterpret_cast<sockaddr*>(&to), sizeof to, from) &&
           std::memcmp(&reinterpret_cast<sockaddr_in&>(from).sin_addr, &to.sin_addr,
                       sizeof to.sin_addr) == 0;
  }
  if (which.family != address_family::ipv6) return false;
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(any_port);
  to.sin6_scope_id = which.scope;
  std::memcpy(&to.sin6_addr, which.bytes.data(), sizeof to.sin6_addr);
  return is_reached_from_itself(reinterpret_cast<sockaddr*>(&to), sizeof to, from) &&
         std::memcmp(&reinterpret_cast<sockaddr_in6&>(from).sin6_addr, &to.sin6_addr,
                     sizeof to.sin6_addr) == 0;
}

}  // namespace verbena::softdev::cm
