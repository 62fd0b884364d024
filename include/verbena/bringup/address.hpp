// SPDX-License-Identifier: MIT
// Where a peer is reached by TCP, as people write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// A host and a TCP port. Threads: immutable value when const.
struct address {
  std::string host;        ///< a name, an IPv4 or an IPv6 address without brackets
  std::uint16_t port = 0;  ///< 0 to listen: any free port

  friend bool operator==(const address&, const address&) = default;
};

/// Reads `host`, `host:port`, `192.0.2.1:port`, `[2001:db8::1]:port` or a bare IPv6 address;
/// without a port, `default_port` is taken.
///
/// Errors: `invalid_argument` for an empty host, a port that is not a number of 0 to 65535,
/// brackets that do not match, or a host of more than 253 characters.
[[nodiscard]] result<address> parse_address(std::string_view text, std::uint16_t default_port = 0);

/// `host:port`, with brackets around an IPv6 address.
[[nodiscard]] std::string to_string(const address& where);

}  // namespace verbena::inline VERBENA_ABI::bringup
