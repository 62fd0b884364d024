// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace verbena::inline VERBENA_ABI {

/// What a message_channel has done so far. Threads: immutable value.
struct message_counters {
  std::uint64_t inlined = 0;   ///< messages that travelled inside their request
  std::uint64_t copied = 0;    ///< messages whose bytes were copied to a buffer
  std::uint64_t signaled = 0;  ///< requests that asked for a completion
  std::uint64_t credit_waits =
      0;  ///< sends that found no credit; a call with a deadline counts once
  std::uint64_t credit_writes = 0;  ///< writes that told the peer of receives
  std::uint64_t tail_writes = 0;    ///< writes that made the end of earlier sends known
  std::uint64_t credit_probes = 0;  ///< writes that tried whether a peer without credit is there
  std::uint64_t receive_doorbells = 0;  ///< lists of receives that were posted
  std::uint64_t empty_pools = 0;        ///< times when no buffer was there for a receive
  std::uint64_t bad_credits = 0;        ///< impossible numbers that the peer wrote; ignored
};

}  // namespace verbena::inline VERBENA_ABI
