// SPDX-License-Identifier: MIT
#include "softdev/core/block_pool.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <new>

#include "softdev/core/cache_line.hpp"
#include "verbena/base/sanitizers.hpp"

namespace verbena::softdev {
namespace {

constexpr std::size_t slab_bytes = std::size_t{2} << 20U;
constexpr std::size_t most_lines = block_pool::most_bytes / cache_line;

/// A free block, in the list of its slab.
struct free_block {
  free_block* next;
};

/// The first line of a slab; its blocks follow. Slabs with free blocks are in the list of their
/// size.
struct alignas(cache_line) slab {
  slab* next = nullptr;
  slab* previous = nullptr;
  free_block* free = nullptr;            ///< blocks that were used before
  std::uint32_t untouched = cache_line;  ///< offset of the first block that was never used
  std::uint32_t used = 0;                ///< number of blocks in use
  std::uint32_t block_bytes = 0;

  [[nodiscard]] bool full() const noexcept {
    return free == nullptr && untouched + block_bytes > slab_bytes;
  }
};
static_assert(sizeof(slab) == cache_line);

struct size_class {
  slab* with_room = nullptr;
  std::uint32_t slabs = 0;
};

constinit std::mutex mutex;
/// Indexed by the size of blocks in lines. Guarded by the mutex.
constinit std::array<size_class, most_lines + 1> classes;

// In a child of fork, the mutex is free and the lists are consistent. The handlers are registered
// when the library is loaded, so that fork() takes this mutex after those under which blocks are
// allocated.
[[maybe_unused]] const int at_fork =
    ::pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });

/// Returns an odd number of lines: the same member of all blocks is then spread over all sets of a
/// cache.
std::size_t lines_of(std::size_t bytes) noexcept {
  return ((bytes + cache_line - 1) / cache_line) | 1U;
}

void link(size_class& to, slab& which) noexcept {
  which.previous = nullptr;
  which.next = to.with_room;
  if (which.next != nullptr) which.next->previous = &which;
  to.with_room = &which;
}
void unlink(size_class& from, slab& which) noexcept {
  if (which.next != nullptr) which.next->previous = which.previous;
  (which.previous != nullptr ? which.previous->next : from.with_room) = which.next;
}

/// Maps a slab at a multiple of its size.
slab* map_slab(bool huge) noexcept {
  void* const mapped = ::mmap(nullptr, 2 * slab_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(mapped);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(first) % slab_bytes;
  std::byte* const begin = first + before;
  if (before != 0) ::munmap(first, before);
  if (before != slab_bytes) ::munmap(begin + slab_bytes, slab_bytes - before);
  ::madvise(begin, slab_bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return new (begin) slab;
}

void* take(std::size_t lines) noexcept {
  const std::lock_guard lock(mutex);
  size_class& sizes = classes[lines];
  if (sizes.with_room == nullptr) {
    slab* const made = map_slab(sizes.slabs > 0);
    if (made == nullptr) return nullptr;
    made->block_bytes = static_cast<std::uint32_t>(lines * cache_line);
    ++sizes.slabs;
    link(sizes, *made);
  }
  slab& from = *sizes.with_room;
  ++from.used;
  void* block = from.free;
  if (block != nullptr) {
    from.free = from.free->next;
  } else {
    block = reinterpret_cast<std::byte*>(&from) + from.untouched;
    from.untouched += from.block_bytes;
  }
  if (from.full()) unlink(sizes, from);
  return block;
}

void give_back(void* block, std::size_t lines) noexcept {
  const std::lock_guard lock(mutex);
  size_class& sizes = classes[lines];
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(block) % slab_bytes;
  auto& of = *reinterpret_cast<slab*>(static_cast<std::byte*>(block) - offset);
  if (of.full()) link(sizes, of);
  of.free = new (block) free_block{of.free};
  --of.used;
  // The last slab is kept: a process that repeatedly creates and destroys one queue pair would map
  // it each time.
  if (of.used != 0 || sizes.slabs == 1) return;
  unlink(sizes, of);
  --sizes.slabs;
  ::munmap(&of, slab_bytes);
}

// Sanitizers detect use after free, and leaks, only on the heap.
#if defined(VERBENA_ADDRESS_SANITIZER) || defined(VERBENA_THREAD_SANITIZER)
constexpr bool has_slabs = false;
#else
constexpr bool has_slabs = true;
#endif

}  // namespace

void* block_pool::allocate(std::size_t bytes) noexcept {
  if (has_slabs && bytes <= most_bytes - cache_line) return take(lines_of(bytes));
  return ::operator new(bytes, std::align_val_t{cache_line}, std::nothrow);
}

void block_pool::release(void* block, std::size_t bytes) noexcept {
  if (has_slabs && bytes <= most_bytes - cache_line) return give_back(block, lines_of(bytes));
  ::operator delete(block, std::align_val_t{cache_line});
}

}  // namespace verbena::softdev
