// SPDX-License-Identifier: MIT
// Access flags of memory regions and queue pairs.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/flags.hpp"

namespace verbena::inline VERBENA_ABI {

/// An access flag. The values are those of `ibv_access_flags`. Source: ibv_reg_mr(3).
enum class access : std::uint32_t {
  local_write = 1U << 0,         ///< the adapter may write: receives, READs, atomics
  remote_write = 1U << 1,        ///< peers may write; needs local_write
  remote_read = 1U << 2,         ///< peers may read
  remote_atomic = 1U << 3,       ///< atomics of peers; needs local_write
  memory_window_bind = 1U << 4,  ///< memory windows may be bound to it
  zero_based = 1U << 5,          ///< addresses are offsets from the first byte
  on_demand = 1U << 6,           ///< pages are faulted in on access, not pinned
  huge_pages = 1U << 7,          ///< the memory consists of huge pages
  flush_global = 1U << 8,        ///< IBV_ACCESS_FLUSH_GLOBAL: peers may flush to visibility
  flush_persistent = 1U << 9,    ///< IBV_ACCESS_FLUSH_PERSISTENT: peers may flush to persistence
  relaxed_ordering = 1U << 20,   ///< the bus may reorder; ignored if unknown
};
template <>
inline constexpr bool enable_flags<access> = true;

/// A set of access flags. With the empty set the adapter may only read the memory, for sending.
using access_flags = flags<access>;

/// The access flags for READs, WRITEs and atomics of peers.
inline constexpr access_flags remote_access =
    access::remote_read | access::remote_write | access::remote_atomic;

/// Returns `local_write | remote_read | 0x40000000`. Unknown bits are hexadecimal; empty: `none`.
[[nodiscard]] std::string to_string(access_flags set);

}  // namespace verbena::inline VERBENA_ABI
