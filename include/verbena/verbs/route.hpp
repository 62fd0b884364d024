// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "verbena/base/config.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/verbs/mtu.hpp"

namespace verbena::inline VERBENA_ABI {

/// The local port of a connection, and the attributes of its packets.
/// Source: ibv_modify_qp(3). Threads: immutable value.
struct route {
  /// The local port.
  port_number port = port_number(1);
  /// Index of the local GID in the GID table of the port. If not set: context::routable_gid() on
  /// Ethernet, no GID on InfiniBand, index 0 on EFA.
  std::optional<verbena::gid_index> gid_index = {};
  /// The path MTU that this side requests. If not set: the active MTU of the port. A connection
  /// uses the smaller value of both sides.
  std::optional<mtu> path_mtu = {};
  std::uint8_t service_level = 0;  ///< at most 15
  std::uint8_t traffic_class = 0;  ///< on RoCE, the upper six bits are the DSCP
  std::uint8_t hop_limit = 64;     ///< the maximum number of routers on the path
  std::uint16_t pkey_index = 0;    ///< index in the P_Key table of the port

  friend bool operator==(const route&, const route&) noexcept = default;
};

/// The local port of a datagram queue pair. The address handle of each request has the rest of the
/// route. Source: ibv_modify_qp(3). Threads: immutable value.
struct datagram_route {
  /// The local port.
  port_number port = route{}.port;
  /// Index of the GID that endpoint() reports. If not set: see route::gid_index.
  std::optional<verbena::gid_index> gid_index = {};
  /// Index in the P_Key table of the port.
  std::uint16_t pkey_index = route{}.pkey_index;

  friend bool operator==(const datagram_route&, const datagram_route&) noexcept = default;
};

}  // namespace verbena::inline VERBENA_ABI

/// Hashes all members.
template <>
struct std::hash<verbena::route> {
  /// Returns the hash of `of`.
  std::size_t operator()(const verbena::route& of) const noexcept;
};
/// Hashes all members.
template <>
struct std::hash<verbena::datagram_route> {
  /// Returns the hash of `of`.
  std::size_t operator()(const verbena::datagram_route& of) const noexcept;
};
