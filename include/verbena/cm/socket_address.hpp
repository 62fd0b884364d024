// SPDX-License-Identifier: MIT
// Addresses of the connection manager: IPv4, IPv6 or AF_IB, with a port.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// An address and a port. Threads: immutable value.
class socket_address {
 public:
  /// Returns the IPv4 wildcard address.
  [[nodiscard]] static socket_address any_ipv4(std::uint16_t port = 0) noexcept;
  /// Returns the IPv6 wildcard address, which includes IPv4 unless limited to one family.
  [[nodiscard]] static socket_address any_ipv6(std::uint16_t port = 0) noexcept;
  /// Parses `192.0.2.1` or `2001:db8::1`. Does not resolve names; cm::resolve() does. Errors:
  /// `invalid_argument` for other text.
  [[nodiscard]] static result<socket_address> parse(std::string_view numeric,
                                                    std::uint16_t port = 0);
  /// Copies an address of the C API. Errors: `not_supported` for families other than AF_INET,
  /// AF_INET6 and AF_IB.
  [[nodiscard]] static result<socket_address> from_native(const sockaddr& native);

  /// Returns AF_INET, AF_INET6 or AF_IB.
  [[nodiscard]] int family() const noexcept { return storage_.ss_family; }
  /// Returns the port; for AF_IB the low 16 bits of the service identifier.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// Returns a copy with another port.
  [[nodiscard]] socket_address with_port(std::uint16_t port) const noexcept;
  /// Returns the address without the port: `192.0.2.1`, `2001:db8::1`.
  [[nodiscard]] std::string host() const;
  /// Returns whether it is the wildcard address.
  [[nodiscard]] bool is_any() const noexcept;

  /// Returns the address for C functions.
  [[nodiscard]] const sockaddr* native() const noexcept;
  /// Returns the size of native() in bytes.
  [[nodiscard]] socklen_t native_length() const noexcept;

  /// Compares family, address and port.
  friend bool operator==(const socket_address& a, const socket_address& b) noexcept;

 private:
  socket_address() noexcept = default;
  sockaddr_storage storage_{};
};

/// Returns `192.0.2.1:7471`, `[2001:db8::1]:7471`.
[[nodiscard]] std::string to_string(const socket_address& of);

}  // namespace verbena::inline VERBENA_ABI::cm

/// Hashes family, address and port.
template <>
struct std::hash<verbena::cm::socket_address> {
  /// Returns the hash of `of`.
  std::size_t operator()(const verbena::cm::socket_address& of) const noexcept;
};
