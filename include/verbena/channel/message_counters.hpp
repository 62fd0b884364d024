// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbena::inline VERBENA_ABI {

/// Statistics of a message_channel. Threads: immutable value.
struct message_counters {
  std::uint64_t inlined = 0;        ///< messages sent inline
  std::uint64_t copied = 0;         ///< messages copied into a buffer
  std::uint64_t signaled = 0;       ///< signaled requests
  std::uint64_t credit_waits = 0;   ///< sends that found no credit; a call that waits counts once
  std::uint64_t credit_writes = 0;  ///< writes that granted credits
  std::uint64_t tail_writes = 0;    ///< signaled writes after unsignaled sends
  std::uint64_t credit_probes = 0;  ///< writes that checked whether the peer is alive
  std::uint64_t receive_doorbells = 0;  ///< posted lists of receives
  std::uint64_t empty_pools = 0;        ///< times when no buffer was free for a receive
  std::uint64_t bad_credits = 0;        ///< invalid credits written by the peer; ignored
};

}  // namespace verbena::inline VERBENA_ABI
