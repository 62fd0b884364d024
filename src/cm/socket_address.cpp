// SPDX-License-Identifier: MIT
#include "verbena/cm/socket_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <infiniband/ib.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

#include "src/base/hash.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI::cm {
namespace {

// Copies an address from its storage into its type, such as sockaddr_in.
template <class Native>
Native as(const sockaddr_storage& storage) noexcept {
  Native native;
  std::memcpy(&native, &storage, sizeof native);
  return native;
}
template <class Native>
void set(sockaddr_storage& storage, const Native& native) noexcept {
  std::memcpy(&storage, &native, sizeof native);
}

socklen_t length_of(int family) noexcept {
  switch (family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    case AF_IB:
      return sizeof(sockaddr_ib);
    default:
      return 0;
  }
}

// Return wildcard addresses.
sockaddr_in ipv4_of(std::uint16_t port) noexcept {
  sockaddr_in native{};
  native.sin_family = AF_INET;
  native.sin_port = network_order(port);
  return native;
}
sockaddr_in6 ipv6_of(std::uint16_t port) noexcept {
  sockaddr_in6 native{};
  native.sin6_family = AF_INET6;
  native.sin6_port = network_order(port);
  return native;
}

constexpr std::uint64_t port_bits = 0xffff;

}  // namespace

socket_address socket_address::any_ipv4(std::uint16_t port) noexcept {
  socket_address made;
  set(made.storage_, ipv4_of(port));
  return made;
}

socket_address socket_address::any_ipv6(std::uint16_t port) noexcept {
  socket_address made;
  set(made.storage_, ipv6_of(port));
  return made;
}

result<socket_address> socket_address::parse(std::string_view numeric, std::uint16_t port) {
  const std::string text(numeric);
  const bool whole = text.find('\0') == std::string::npos;  // inet_pton(3) would ignore the rest
  socket_address made;
  if (auto four = ipv4_of(port); whole && ::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    set(made.storage_, four);
    return made;
  }
  if (auto six = ipv6_of(port); whole && ::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
    set(made.storage_, six);
    return made;
  }
  return error::invalid_argument("socket_address::parse", text,
                                 "the text is neither an IPv4 nor an IPv6 address; "
                                 "cm::connector::resolve() and cm::resolve() accept host names");
}

result<socket_address> socket_address::from_native(const sockaddr& native) {
  const socklen_t length = length_of(native.sa_family);
  if (length == 0)
    return error::not_supported("socket_address::from_native", {},
                                fmt::format("the connection manager does not support addresses of "
                                            "the family {}",
                                            native.sa_family));
  socket_address made;
  std::memcpy(&made.storage_, &native, length);
  if (made.family() == AF_INET) {  // operator== compares the padding too
    auto four = as<sockaddr_in>(made.storage_);
    std::memset(four.sin_zero, 0, sizeof four.sin_zero);
    set(made.storage_, four);
  }
  return made;
}

std::uint16_t socket_address::port() const noexcept {
  switch (family()) {
    case AF_INET:
      return network_order(as<sockaddr_in>(storage_).sin_port);
    case AF_INET6:
      return network_order(as<sockaddr_in6>(storage_).sin6_port);
    default:
      return static_cast<std::uint16_t>(
          network_order(std::uint64_t{as<sockaddr_ib>(storage_).sib_sid}) & port_bits);
  }
}

socket_address socket_address::with_port(std::uint16_t port) const noexcept {
  socket_address made = *this;
  if (family() == AF_INET) {
    auto native = as<sockaddr_in>(storage_);
    native.sin_port = network_order(port);
    set(made.storage_, native);
  } else if (family() == AF_INET6) {
    auto native = as<sockaddr_in6>(storage_);
    native.sin6_port = network_order(port);
    set(made.storage_, native);
  } else {
    auto native = as<sockaddr_ib>(storage_);
    const std::uint64_t service = network_order(std::uint64_t{native.sib_sid}) & ~port_bits;
    native.sib_sid = network_order(service | port);
    set(made.storage_, native);
  }
  return made;
}

std::string socket_address::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family() == AF_INET) {
    const auto native = as<sockaddr_in>(storage_);
    ::inet_ntop(AF_INET, &native.sin_addr, text.data(), text.size());
  } else if (family() == AF_INET6) {
    const auto native = as<sockaddr_in6>(storage_);
    ::inet_ntop(AF_INET6, &native.sin6_addr, text.data(), text.size());
  } else {
    const auto native = as<sockaddr_ib>(storage_);
    ::inet_ntop(AF_INET6, &native.sib_addr, text.data(), text.size());
  }
  return text.data();
}

bool socket_address::is_any() const noexcept {
  if (family() == AF_INET) return as<sockaddr_in>(storage_).sin_addr.s_addr == INADDR_ANY;
  const auto address = family() == AF_INET6 ? as<sockaddr_in6>(storage_).sin6_addr : [&] {
    in6_addr gid{};
    const auto native = as<sockaddr_ib>(storage_);
    std::memcpy(&gid, &native.sib_addr, sizeof gid);
    return gid;
  }();
  return IN6_IS_ADDR_UNSPECIFIED(&address);
}

const sockaddr* socket_address::native() const noexcept {
  const void* const address = &storage_;
  return static_cast<const sockaddr*>(address);
}

socklen_t socket_address::native_length() const noexcept { return length_of(family()); }

bool operator==(const socket_address& a, const socket_address& b) noexcept {
  return std::memcmp(&a.storage_, &b.storage_, sizeof a.storage_) == 0;
}

std::string to_string(const socket_address& of) {
  return of.family() == AF_INET ? fmt::format("{}:{}", of.host(), of.port())
                                : fmt::format("[{}]:{}", of.host(), of.port());
}

}  // namespace verbena::inline VERBENA_ABI::cm

std::size_t std::hash<verbena::cm::socket_address>::operator()(
    const verbena::cm::socket_address& of) const noexcept {
  const void* const bytes = of.native();
  return verbena::detail::hash_of({static_cast<const std::byte*>(bytes), of.native_length()});
}
