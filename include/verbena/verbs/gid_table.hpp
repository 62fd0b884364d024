// SPDX-License-Identifier: MIT
// The GID table of a device: the addresses that its ports can be reached at.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "verbena/base/guid.hpp"
#include "verbena/base/ids.hpp"

namespace verbena::inline VERBENA_ABI {

/// What a GID is used with. Values as in `ibv_gid_type`; unknown ones are kept.
enum class gid_type : std::uint32_t {
  infiniband = IBV_GID_TYPE_IB,    ///< InfiniBand
  roce_v1 = IBV_GID_TYPE_ROCE_V1,  ///< RoCE v1: Ethernet frames of a type of their own
  roce_v2 = IBV_GID_TYPE_ROCE_V2,  ///< RoCE v2: UDP on port 4791
};

/// `InfiniBand`, `RoCE v1`, `RoCE v2`, `unknown (7)`.
[[nodiscard]] std::string to_string(gid_type type);

/// One entry of the table.
struct gid_entry {
  verbena::gid gid;                      ///< the address
  gid_index index;                       ///< its place in the port's table
  port_number port;                      ///< that has it
  gid_type type = gid_type::infiniband;  ///< what it is used with
  std::uint32_t interface_index = 0;     ///< of the network interface; 0 if there is none

  /// The network interface's name now; nothing if there is none (any more). One system call.
  [[nodiscard]] std::optional<std::string> interface_name() const;
  friend bool operator==(const gid_entry&, const gid_entry&) noexcept = default;
};

/// `port 1 GID 2: ::ffff:192.0.2.1 (RoCE v2, eth0)`.
[[nodiscard]] std::string to_string(const gid_entry& entry);

/// The entry that most likely reaches other hosts, the rule of context::routable_gid(): RoCE v2
/// with an IPv4 address, RoCE v2 with a routable IPv6 address, RoCE v2 with an IPv4 loopback
/// address, whatever is first. Nothing if there is none.
[[nodiscard]] std::optional<gid_entry> choose_routable(std::span<const gid_entry> entries);

}  // namespace verbena::inline VERBENA_ABI
