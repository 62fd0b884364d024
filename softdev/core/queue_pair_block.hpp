// SPDX-License-Identifier: MIT
// The memory of a queue pair: the object, its send side and its queues, unless they are long, are
// in one block, first what each request needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softdev/core/queue_pair.hpp"

namespace verbena::softdev {

/// Threads: `create` and `destroy` one at a time for each queue pair, the others thread-safe.
class queue_pair_block {
 public:
  /// Makes a queue pair. Returns nullptr if memory is exhausted; if that is the memory of a long
  /// queue, throws std::bad_alloc.
  [[nodiscard]] static queue_pair* create(engine& home, std::uint32_t number,
                                          const queue_pair_options& options);
  static void destroy(queue_pair* which) noexcept;
  /// Begins to load what posting sends needs into the cache, all at once: a queue pair that was not
  /// used for a while costs one miss instead of many. `which` need not exist any more.
  static void prefetch_sends(const queue_pair* which) noexcept;
  /// Begins to load what the responder needs for an incoming request.
  static void prefetch_receives(const queue_pair* which) noexcept;
  /// Room for what the path to other processes keeps of the queue pair, in memory that posting
  /// loads anyway.
  [[nodiscard]] static std::byte* path_room(queue_pair& which) noexcept { return which.path_room_; }

 private:
  struct hot;
};

}  // namespace verbena::softdev
