// SPDX-License-Identifier: MIT
// Memory for objects of which a process may have thousands: queue pairs and their parts. If a
// program uses them in random order, few of them are in its caches, and few of their pages in its
// TLB.
#pragma once

#include <cstddef>
#include <new>

namespace verbena::softdev {

/// Allocates blocks of one size from slabs of 2 MiB, so that they are on few pages. The first slab
/// of each size has ordinary pages, which use memory only when they are accessed. The other slabs
/// have huge pages if the kernel provides them.
///
/// Threads: thread-safe.
class block_pool {
 public:
  /// Larger blocks come from the heap.
  static constexpr std::size_t most_bytes = 32768;

  /// Returns memory aligned to a cache line, or nullptr if memory is exhausted.
  [[nodiscard]] static void* allocate(std::size_t bytes) noexcept;
  /// Releases memory of `allocate`. `bytes` is the size passed to `allocate`.
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
