// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/guid.hpp"

namespace verbena::inline VERBENA_ABI {

/// How far the address reaches that a RoCE GID is.
enum class gid_scope : std::uint8_t {
  ipv4,        ///< IPv4, beyond this link
  ipv6,        ///< IPv6, beyond this link
  loopback,    ///< 127.0.0.0/8 or ::1: this host
  link_local,  ///< fe80::/10: this link
};
/// `IPv4`, `IPv6`, `loopback`, `link-local`.
[[nodiscard]] std::string to_string(gid_scope of);
/// Of an address.
[[nodiscard]] gid_scope scope_of(const gid& address) noexcept;

}  // namespace verbena::inline VERBENA_ABI
