// SPDX-License-Identifier: MIT
// Who may do what to memory: the rights of memory regions and queue pairs.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "verbena/base/flags.hpp"

namespace verbena::inline VERBENA_ABI {

/// A right to memory. The values are those of `ibv_access_flags`. Source: ibv_reg_mr(3).
enum class access : std::uint32_t {
  local_write = IBV_ACCESS_LOCAL_WRITE,      ///< the device may write: receives, reads, atomics
  remote_write = IBV_ACCESS_REMOTE_WRITE,    ///< peers may write; needs local_write
  remote_read = IBV_ACCESS_REMOTE_READ,      ///< peers may read
  remote_atomic = IBV_ACCESS_REMOTE_ATOMIC,  ///< peers may do atomics; needs local_write
  memory_window_bind = IBV_ACCESS_MW_BIND,   ///< memory windows may be bound to it
  zero_based = IBV_ACCESS_ZERO_BASED,        ///< addressed by offsets from its beginning
  on_demand = IBV_ACCESS_ON_DEMAND,          ///< pages are brought in when needed, not pinned
  huge_pages = IBV_ACCESS_HUGETLB,           ///< the memory consists of huge pages
  flush_global = 1U << 8,      ///< IBV_ACCESS_FLUSH_GLOBAL: peers may flush to visibility
  flush_persistent = 1U << 9,  ///< IBV_ACCESS_FLUSH_PERSISTENT: peers may flush to persistence
  relaxed_ordering = IBV_ACCESS_RELAXED_ORDERING,  ///< the bus may reorder; ignored if unknown
};
template <>
inline constexpr bool enable_flags<access> = true;

/// A set of rights. The empty set lets the device read, for sending, and nothing else.
using access_flags = flags<access>;

/// The rights of peers to reads, writes and atomics.
inline constexpr access_flags rights_of_peers =
    access::remote_read | access::remote_write | access::remote_atomic;

/// `local_write | remote_read | 0x40000000`: names, unknown bits in hexadecimal; `none` if empty.
[[nodiscard]] std::string to_string(access_flags rights);

}  // namespace verbena::inline VERBENA_ABI
