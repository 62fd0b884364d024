// SPDX-License-Identifier: MIT
// The TCP address of a peer, and its text form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// A host and a TCP port. Threads: immutable value when const.
struct address {
  std::string host;        ///< a name, an IPv4 address, or an IPv6 address without brackets
  std::uint16_t port = 0;  ///< to listen, 0 means any free port

  friend bool operator==(const address&, const address&) = default;
};

/// Parses `host`, `host:port`, `192.0.2.1:port`, `[2001:db8::1]:port` or a bare IPv6 address. If
/// the text has no port, uses `default_port`.
///
/// Errors: `invalid_argument` for an empty host, a port that is not a number from 0 to 65535,
/// unbalanced brackets, or a host of more than 253 characters.
[[nodiscard]] result<address> parse_address(std::string_view text, std::uint16_t default_port = 0);

/// Returns `host:port`, with brackets around an IPv6 address.
[[nodiscard]] std::string to_string(const address& where);

}  // namespace verbena::inline VERBENA_ABI::bringup

/// Hashes host and port.
template <>
struct std::hash<verbena::bringup::address> {
  /// Returns the hash of `of`.
  std::size_t operator()(const verbena::bringup::address& of) const noexcept;
};
