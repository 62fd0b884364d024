// SPDX-License-Identifier: MIT
// GID tables: the addresses of ports. Source: ibv_query_gid_table(3).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "verbena/base/guid.hpp"
#include "verbena/base/ids.hpp"

namespace verbena::inline VERBENA_ABI {

/// The protocol of a GID. Values as in `ibv_gid_type` of rdma-core 32; unknown values are
/// preserved.
enum class gid_type : std::uint32_t {
  infiniband = 0,  ///< InfiniBand
  roce_v1 = 1,     ///< RoCE v1: Ethernet frames with their own EtherType
  roce_v2 = 2,     ///< RoCE v2: UDP on port 4791
};

/// Returns `InfiniBand`, `RoCE v1`, `RoCE v2` or `unknown (7)`.
[[nodiscard]] std::string to_string(gid_type type);

/// An entry of a GID table. Threads: immutable value.
struct gid_entry {
  verbena::gid gid;                      ///< the address
  gid_index index;                       ///< index in the GID table of the port
  port_number port;                      ///< the port
  gid_type type = gid_type::infiniband;  ///< the protocol
  std::uint32_t interface_index = 0;     ///< index of the network interface; 0: no interface

  /// Returns the current name of the network interface, or `nullopt` if there is no interface:
  /// if_indextoname(3). Allocates; makes system calls.
  [[nodiscard]] std::optional<std::string> interface_name() const;
  friend bool operator==(const gid_entry&, const gid_entry&) noexcept = default;
};

/// Returns `port 1 GID 2: ::ffff:192.0.2.1 (RoCE v2, eth0)`.
[[nodiscard]] std::string to_string(const gid_entry& entry);

/// Returns the entry that most likely reaches other hosts, or `nullopt` if there are no entries.
///
/// Order of preference: RoCE v2 with an IPv4 address, RoCE v2 with a routable IPv6 address, RoCE v2
/// with an IPv4 loopback address, the first entry.
[[nodiscard]] std::optional<gid_entry> choose_routable(std::span<const gid_entry> entries);

}  // namespace verbena::inline VERBENA_ABI
