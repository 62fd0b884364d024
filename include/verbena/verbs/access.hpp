// SPDX-License-Identifier: MIT
// Access flags of memory regions and queue pairs. Source: ibv_reg_mr(3).
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/flags.hpp"

namespace verbena::inline VERBENA_ABI {

/// An access flag. Values as in `ibv_access_flags`.
enum class access : std::uint32_t {
  local_write = 1U << 0,         ///< the device may write: receives, READs, results of atomics
  remote_write = 1U << 1,        ///< peers may write; needs local_write
  remote_read = 1U << 2,         ///< peers may read
  remote_atomic = 1U << 3,       ///< peers may execute atomic operations; needs local_write
  memory_window_bind = 1U << 4,  ///< memory windows may be bound to the region
  zero_based = 1U << 5,          ///< addresses in work requests are offsets from the first byte
  on_demand = 1U << 6,           ///< pages are faulted in on access and not pinned
  huge_pages = 1U << 7,          ///< with on_demand: all pages of the memory are huge pages
  flush_global = 1U << 8,        ///< peers may flush to global visibility (newer rdma-core)
  flush_persistent = 1U << 9,    ///< peers may flush to persistence (newer rdma-core)
  relaxed_ordering = 1U << 20,   ///< the system may reorder accesses; ignored if not supported
};
template <>
inline constexpr bool enable_flags<access> = true;

/// A set of access flags. With the empty set, the memory can only be sent: local read access is
/// always enabled.
using access_flags = flags<access>;

/// The access flags for RDMA READs, RDMA WRITEs and atomic operations of peers.
inline constexpr access_flags remote_access =
    access::remote_read | access::remote_write | access::remote_atomic;

/// Returns `local_write | remote_read | 0x40000000`. Unknown bits are hexadecimal. The empty set is
/// `none`.
[[nodiscard]] std::string to_string(access_flags set);

}  // namespace verbena::inline VERBENA_ABI
