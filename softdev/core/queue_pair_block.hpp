// SPDX-License-Identifier: MIT
// The memory of a queue pair: one block with the object, its send side and its queues, unless they
// are long. The parts that each request needs are at the beginning.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softdev/core/queue_pair.hpp"

namespace verbena::softdev {

/// Allocates queue pairs and prefetches their memory. Threads: `create` and `destroy` one at a time
/// for each queue pair, the others thread-safe.
class queue_pair_block {
 public:
  /// Creates a queue pair. Returns nullptr if the memory for the block is exhausted. Throws
  /// std::bad_alloc if the memory for a long queue is exhausted.
  [[nodiscard]] static queue_pair* create(engine& home, std::uint32_t number,
                                          const queue_pair_options& options);
  static void destroy(queue_pair* which) noexcept;
  /// Prefetches the memory that posting sends needs: a queue pair that was not used for a while
  /// costs one cache miss instead of many. `which` may already be destroyed.
  static void prefetch_sends(const queue_pair* which) noexcept;
  /// Prefetches the memory that the responder needs for an incoming request.
  static void prefetch_receives(const queue_pair* which) noexcept;
  /// Returns room for data of the path to other processes, in memory that posting loads anyway.
  [[nodiscard]] static std::byte* path_room(queue_pair& which) noexcept { return which.path_room_; }

 private:
  struct hot;
};

}  // namespace verbena::softdev
