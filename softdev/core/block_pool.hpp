// SPDX-License-Identifier: MIT
// Memory for the objects of which a process may have thousands: queue pairs and what belongs to
// them. A program that uses them in a random order has few of them in its caches, and its TLB has
// few of their pages.
#pragma once

#include <cstddef>
#include <new>

namespace verbena::softdev {

/// Allocates blocks of the same size from one slab of 2 MiB, so that they are on few pages. The
/// first slab of each size has ordinary pages, which take memory when they are touched; the others
/// have huge pages where the kernel has them.
///
/// Threads: thread-safe.
class block_pool {
 public:
  /// Larger blocks come from the heap.
  static constexpr std::size_t most_bytes = 32768;

  /// Returns memory aligned to a cache line, or nullptr if memory is exhausted.
  [[nodiscard]] static void* allocate(std::size_t bytes) noexcept;
  /// Gives back memory of `allocate`. `bytes`: the same.
  static void release(void* block, std::size_t bytes) noexcept;
};

/// Base of classes whose objects are in the pool. They are aligned to a cache line at most.
template <class Object>
struct pooled {  // NOLINT(bugprone-crtp-constructor-accessibility): for aggregates, too
  static void* operator new(std::size_t bytes) {
    void* const block = block_pool::allocate(bytes);
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }
  static void* operator new(std::size_t bytes, const std::nothrow_t& /*unused*/) noexcept {
    return block_pool::allocate(bytes);
  }
  static void operator delete(void* block, std::size_t bytes) noexcept {
    block_pool::release(block, bytes);
  }
};

}  // namespace verbena::softdev
