// SPDX-License-Identifier: MIT
// Addresses of the connection manager: an IP address and a port number.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace verbena::softdev::cm {

enum class address_family : std::uint8_t { none, ipv4, ipv6 };

/// An IP address with a port. Threads: immutable value.
struct address {
  address_family family = address_family::none;
  /// In network byte order; IPv4 uses the first four.
  std::array<std::uint8_t, 16> bytes{};
  std::uint16_t port = 0;   ///< host byte order
  std::uint32_t scope = 0;  ///< the interface of a link-local IPv6 address

  bool operator==(const address&) const = default;
};

[[nodiscard]] bool is_wildcard(const address& value) noexcept;
/// Returns whether this is the address of a group: 224.0.0.0/4, ff00::/8.
[[nodiscard]] bool is_multicast(const address& value) noexcept;
[[nodiscard]] bool is_loopback(const address& value) noexcept;
/// Returns whether both have the same family and bytes; ignores the ports.
[[nodiscard]] bool same_host(const address& one, const address& other) noexcept;
/// Returns whether this is an IPv6 address that is valid on one link: fe80::/10.
[[nodiscard]] bool is_link_local(const address& value) noexcept;
/// Returns whether both can be bound by one endpoint at a time: they have the same family and
/// bytes, and if they are link-local, the same interface. Ignores the ports.
[[nodiscard]] bool same_address(const address& one, const address& other) noexcept;
[[nodiscard]] address with_port(address value, std::uint16_t port) noexcept;
/// Returns the GID of an address: an IPv6 address itself, or ::ffff:a.b.c.d.
[[nodiscard]] std::array<std::uint8_t, 16> gid_of(const address& value) noexcept;
/// Returns the address of the loopback interface.
[[nodiscard]] address loopback_of(address_family family) noexcept;

/// Returns the address if it is one of this host, otherwise `nullopt`. If a link-local address has
/// no interface, adds the first one that has the address. Asks the kernel.
[[nodiscard]] std::optional<address> find_local(const address& value) noexcept;
/// Returns whether the address is one of this host. Asks the kernel.
[[nodiscard]] inline bool is_local(const address& value) noexcept {
  return find_local(value).has_value();
}

}  // namespace verbena::softdev::cm
