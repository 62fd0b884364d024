// SPDX-License-Identifier: MIT
// Memory that peers on this host can map. Every allocation is in a sealed memfd, whose descriptor
// is passed to a peer when the peer first needs it. Small allocations share a memfd, because
// descriptors are scarce. The memory is not locked and not in /dev/shm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "softdev/shm/sealed_memory.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// The location of an address: an arena (a memfd) and the offset in it. Ids of arenas are never 0
/// and never reused in a process.
struct arena_location {
  std::uint64_t arena = 0;
  std::uint64_t offset = 0;
};

/// Owns all shareable memory of the process. Thread-safe; calls take a private lock and never wait
/// for a peer.
class arena_registry {
 public:
  arena_registry();
  /// Unmaps all allocations, including those that were not freed.
  ~arena_registry();
  arena_registry(const arena_registry&) = delete;
  arena_registry& operator=(const arena_registry&) = delete;

  enum class pages : std::uint8_t { normal, huge };
  /// Allocates at least `bytes` of zeroed, page-aligned memory. Errors: `invalid_argument` for 0
  /// bytes; `out of memory` (ENOMEM) if memory or huge pages are exhausted.
  [[nodiscard]] result<void*> allocate(std::size_t bytes, pages kind);
  /// Frees memory. Returns 0, EINVAL if allocate() did not return `memory`, or EBUSY while a region
  /// uses the memory.
  [[nodiscard]] int free(void* memory);

  /// Returns the location of [memory, memory+bytes) and increments the use count of the allocation
  /// until release(memory). Returns nullopt if the range is not inside one allocation.
  [[nodiscard]] std::optional<arena_location> acquire(const void* memory, std::size_t bytes);
  void release(const void* memory);

  /// The address range of an allocation.
  struct allocated_range {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
  };
  /// Returns the allocation that contains `memory`; nullopt for ordinary memory.
  [[nodiscard]] std::optional<allocated_range> range_of(const void* memory) noexcept;

  /// The new location of an allocation.
  struct replaced {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t arena = 0;       ///< the new arena
    std::uint64_t arena_base = 0;  ///< address of its first byte
  };
  /// Moves the allocation that contains `memory` to new pages at the same addresses, with the same
  /// content. A process that mapped the old pages keeps only those. Used if a stopped peer has them
  /// mapped. The program must not write to the allocation during the call: such bytes may be lost.
  [[nodiscard]] result<replaced> replace_pages(const void* memory);

  /// The values that a peer needs to map an arena: a duplicate of the descriptor and the memfd's
  /// size.
  struct share {
    unique_fd fd;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] std::optional<share> share_arena(std::uint64_t arena) const;
  /// Returns the arenas that were destroyed since the last call, so that peers can be notified.
  [[nodiscard]] std::vector<std::uint64_t> take_retired();

  /// Closes the descriptors in a child of fork. Its mappings stay. Does nothing if another thread
  /// of the parent was changing the registry.
  void close_all() noexcept;

  /// Returns the number of allocations.
  [[nodiscard]] std::size_t size() const;

 private:
  struct backing;
  struct chunk;
  struct allocation;
  using allocation_map = std::map<std::uintptr_t, allocation>;

  [[nodiscard]] result<void*> allocate_small(std::size_t bytes);
  [[nodiscard]] result<void*> allocate_large(std::size_t bytes, pages kind);
  [[nodiscard]] result<std::shared_ptr<backing>> make_backing(std::size_t bytes, pages kind);
  [[nodiscard]] result<std::shared_ptr<chunk>> make_chunk();
  [[nodiscard]] allocation_map::iterator find(const void* memory);

  mutable std::mutex mutex_;
  std::vector<std::uint64_t> retired_;
  std::uint64_t next_arena_ = 1;
  std::map<std::uint64_t, std::weak_ptr<backing>> backings_;
  std::vector<std::shared_ptr<chunk>> chunks_;
  allocation_map allocations_;
};

}  // namespace verbena::softdev
