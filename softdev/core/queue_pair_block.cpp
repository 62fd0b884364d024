// SPDX-License-Identifier: MIT
#include "softdev/core/queue_pair_block.hpp"

#include <new>

#include "softdev/core/block_pool.hpp"
#include "softdev/core/cache_line.hpp"
#include "softdev/core/shared_receive_queue.hpp"
#include "softdev/core/transport/make_requester.hpp"
#include "softdev/core/transport/request_extra.hpp"

namespace verbena::softdev {

send_queue::sizes send_queue_sizes(const queue_pair_options& options) noexcept {
  return {.wr_count = options.capabilities.max_send_wr,
          .max_sges = options.capabilities.max_send_sge,
          .max_inline_bytes = options.capabilities.max_inline_bytes,
          .extra_bytes = request_extra_bytes(options.transport)};
}

receive_queue::sizes receive_queue_sizes(const queue_pair_options& options) noexcept {
  const shared_receive_queue* const shared = options.shared_receives;
  if (shared != nullptr) return {.wr_count = 1, .max_sges = shared->max_sges()};
  return {.wr_count = options.capabilities.max_receive_wr,
          .max_sges = options.capabilities.max_receive_sge};
}

namespace {

/// The positions of the parts of a queue pair in its block. Long queues have their own memory.
struct parts {
  explicit parts(const queue_pair_options& options) noexcept
      : sends_at(sender_at + in_cache_lines(requester_bytes(options.transport))),
        send_bytes(send_queue::bytes_of(send_queue_sizes(options))),
        receive_bytes(receive_queue::bytes_of(receive_queue_sizes(options))),
        has_queues(sends_at + send_bytes + receive_bytes <= longest) {}

  static constexpr std::size_t longest = 16384;
  static constexpr std::size_t sender_at = in_cache_lines(sizeof(queue_pair));
  std::size_t sends_at;
  std::size_t send_bytes;
  std::size_t receive_bytes;
  bool has_queues;
  std::byte* begin = nullptr;

  [[nodiscard]] std::size_t bytes() const noexcept {
    return sends_at + (has_queues ? send_bytes + receive_bytes : 0);
  }
  [[nodiscard]] std::byte* sender() const noexcept { return begin + sender_at; }
  [[nodiscard]] std::byte* sends() const noexcept {
    return has_queues ? begin + sends_at : nullptr;
  }
  [[nodiscard]] std::byte* receives() const noexcept {
    return has_queues ? begin + sends_at + send_bytes : nullptr;
  }
};

/// Prefetches `count` cache lines from `offset` on.
void prefetch(const queue_pair* which, std::size_t offset, std::size_t count) noexcept {
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(which) + offset;
  for (std::size_t i = 0; i < count; ++i)
    __builtin_prefetch(reinterpret_cast<const void*>(begin + i * cache_line));
}

}  // namespace

/// The offsets of the frequently used parts of a queue pair.
struct queue_pair_block::hot {
  static constexpr std::size_t common = 0;
  static constexpr std::size_t path = 3 * cache_line;
  static constexpr std::size_t sends = 6 * cache_line;
  static constexpr std::size_t receives = 7 * cache_line;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  static_assert(offsetof(queue_pair, path_room_) == path && offsetof(queue_pair, sends_) == sends &&
                offsetof(queue_pair, receives_) == receives);
#pragma GCC diagnostic pop
};

void queue_pair_block::prefetch_sends(const queue_pair* which) noexcept {
  prefetch(which, hot::common, 2);
  prefetch(which, hot::path, 1);
  prefetch(which, hot::sends, 1);
  prefetch(which, parts::sender_at, 4);  // and the first entry of the queue
}

void queue_pair_block::prefetch_receives(const queue_pair* which) noexcept {
  prefetch(which, hot::common, 2);
  prefetch(which, hot::path, 2);
  prefetch(which, hot::receives, 3);
}

queue_pair* queue_pair_block::create(engine& home, std::uint32_t number,
                                     const queue_pair_options& options) {
  parts memory(options);
  memory.begin = static_cast<std::byte*>(block_pool::allocate(memory.bytes()));
  if (memory.begin == nullptr) return nullptr;
  try {
    return new (memory.begin)
        queue_pair(home, number, options,
                   {memory.sender(), memory.sends(), memory.receives(), memory.bytes()});
  } catch (const std::bad_alloc&) {
    block_pool::release(memory.begin, memory.bytes());
    throw;
  }
}

void queue_pair_block::destroy(queue_pair* which) noexcept {
  const std::size_t bytes = which->block_bytes_;
  which->~queue_pair();
  block_pool::release(which, bytes);
}

}  // namespace verbena::softdev
