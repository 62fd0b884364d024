// SPDX-License-Identifier: MIT
// Addresses of the connection manager: IPv4, IPv6 or InfiniBand's own, with a port.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// An address and a port. Threads: immutable value.
class socket_address {
 public:
  /// Every IPv4 address of the host, to listen at.
  [[nodiscard]] static socket_address any_ipv4(std::uint16_t port = 0) noexcept;
  /// Every IPv6 address of the host, and the IPv4 ones unless limited to one family.
  [[nodiscard]] static socket_address any_ipv6(std::uint16_t port = 0) noexcept;
  /// From `192.0.2.1` or `2001:db8::1`. Does not look up names: bringup::address and address_info
  /// do. Errors: `invalid_argument` for anything else.
  [[nodiscard]] static result<socket_address> parse(std::string_view numeric,
                                                    std::uint16_t port = 0);
  /// A copy of the C API's. Errors: `not_supported` for a family that the connection manager has
  /// not (it has AF_INET, AF_INET6 and AF_IB).
  [[nodiscard]] static result<socket_address> from_native(const sockaddr& native);

  /// AF_INET, AF_INET6 or AF_IB.
  [[nodiscard]] int family() const noexcept { return storage_.ss_family; }
  /// The port; of AF_IB the low 16 bits of the service identifier.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// The same address with another port.
  [[nodiscard]] socket_address with_port(std::uint16_t port) const noexcept;
  /// The address without the port: `192.0.2.1`, `2001:db8::1`.
  [[nodiscard]] std::string host() const;
  /// Whether it stands for all addresses of the host.
  [[nodiscard]] bool is_any() const noexcept;

  /// As C functions take it.
  [[nodiscard]] const sockaddr* native() const noexcept;
  /// The bytes that native() points to.
  [[nodiscard]] socklen_t native_length() const noexcept;

  /// The same address and port.
  friend bool operator==(const socket_address& a, const socket_address& b) noexcept;

 private:
  socket_address() noexcept = default;
  sockaddr_storage storage_{};
};

/// `192.0.2.1:7471`, `[2001:db8::1]:7471`.
[[nodiscard]] std::string to_string(const socket_address& of);

}  // namespace verbena::inline VERBENA_ABI::cm
