// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/guid.hpp"

namespace verbena::inline VERBENA_ABI {

/// The scope of the IP address of a RoCE GID.
enum class gid_scope : std::uint8_t {
  ipv4,        ///< routable IPv4
  ipv6,        ///< routable IPv6
  loopback,    ///< 127.0.0.0/8 or ::1: this host
  link_local,  ///< fe80::/10: this link
};
/// Returns `IPv4`, `IPv6`, `loopback` or `link-local`.
[[nodiscard]] std::string to_string(gid_scope of);
/// Returns the scope of a GID that is an IPv6 or IPv4-mapped address.
[[nodiscard]] gid_scope scope_of(const gid& address) noexcept;

}  // namespace verbena::inline VERBENA_ABI
