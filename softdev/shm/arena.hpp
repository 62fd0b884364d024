// SPDX-License-Identifier: MIT
// Memory that peers on this host can map: every allocation lies in a sealed memfd that is passed by
// descriptor when a peer first needs it. Small allocations share a memfd, because descriptors are
// scarce. Nothing is locked in memory and nothing lies in /dev/shm.
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

/// Where an address lies: which arena (a memfd; ids are never 0 nor reused in a process) and where.
struct arena_location {
  std::uint64_t arena = 0;
  std::uint64_t offset = 0;
};

/// All shareable memory of the process. Thread-safe; calls take a private lock and never wait for
/// a peer.
class arena_registry {
 public:
  arena_registry();
  /// Unmaps everything, also what was not freed.
  ~arena_registry();
  arena_registry(const arena_registry&) = delete;
  arena_registry& operator=(const arena_registry&) = delete;

  enum class pages : std::uint8_t { normal, huge };
  /// Zeroed memory, page-aligned, at least `bytes` long. Errors: `invalid_argument` for 0 bytes;
  /// `out of memory` (ENOMEM) when memory, or huge pages, are missing.
  [[nodiscard]] result<void*> allocate(std::size_t bytes, pages kind);
  /// Gives memory back. 0, EINVAL when `memory` did not come from allocate, or EBUSY while a region
  /// uses it.
  [[nodiscard]] int free(void* memory);

  /// When [memory, memory+bytes) lies in one allocation: its place, and the allocation's use count
  /// is raised until release(memory). Nothing for ordinary memory.
  [[nodiscard]] std::optional<arena_location> acquire(const void* memory, std::size_t bytes);
  void release(const void* memory);

  /// The allocation around `memory`; nullopt for ordinary memory.
  struct allocated_range {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
  };
  [[nodiscard]] std::optional<allocated_range> range_of(const void* memory) noexcept;

  /// Moves the allocation around `memory` to fresh pages at the same addresses, with the same
  /// content; a process that mapped the old pages keeps those alone. Used when a stopped peer holds
  /// them. The program must not write the allocation during the call: such bytes may be lost.
  struct replaced {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t arena = 0;       ///< the new arena
    std::uint64_t arena_base = 0;  ///< address of its first byte
  };
  [[nodiscard]] result<replaced> replace_pages(const void* memory);

  /// What a peer is given for an arena id: a duplicate of the descriptor and the memfd's size.
  struct share {
    unique_fd fd;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] std::optional<share> share_arena(std::uint64_t arena) const;
  /// Arenas that ceased to exist since the last call, for telling peers.
  [[nodiscard]] std::vector<std::uint64_t> take_retired();

  /// Allocations alive.
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
