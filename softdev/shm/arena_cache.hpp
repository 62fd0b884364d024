// SPDX-License-Identifier: MIT
// The initiator's mappings of one peer's arenas. A mapping is asked for on first use; until the
// owner answers, the caller takes another route.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "softdev/shm/sealed_memory.hpp"

namespace verbena::softdev {

enum class map_status : std::uint8_t {
  ready,
  ask,          ///< not there: the caller sends the request (mark_asked), then takes another route
  pending,      ///< asked for: take another route for now
  unavailable,  ///< the owner or the system refused, or the range is not in the arena
};

/// Lookups are lock-free and allocate nothing; they and the use of the returned address happen
/// inside an active section of the peer, so that mappings can be dropped safely. Thread-safe.
class arena_cache {
 public:
  static constexpr std::size_t capacity = 1024;

  /// One arena of the peer: asked for, mapped or refused. Opaque to others.
  struct node {
    enum class stage : std::uint8_t { asked, ready, refused };
    explicit node(std::uint64_t id) noexcept : arena(id) {}

    const std::uint64_t arena;
    std::atomic<stage> at = stage::asked;
    std::atomic<bool> writable = false;
    mapping map;  ///< written before `at` becomes ready
  };

  arena_cache();
  ~arena_cache();
  arena_cache(const arena_cache&) = delete;
  arena_cache& operator=(const arena_cache&) = delete;

  struct found {
    map_status status = map_status::unavailable;
    std::byte* address = nullptr;
  };
  /// Where [offset, offset+bytes) of `arena` is mapped here.
  [[nodiscard]] found find(std::uint64_t arena, std::uint64_t offset, std::uint64_t bytes,
                           map_access access) noexcept;
  /// Remembers that `arena` was asked for; false when it was asked for already, or there is no room
  /// or no memory.
  bool mark_asked(std::uint64_t arena);
  /// Takes back mark_asked, when the request could not be sent.
  void forget(std::uint64_t arena);
  /// Maps what the owner sent. False when it was not asked for or is not sealed memory of `bytes`.
  bool insert(std::uint64_t arena, unique_fd fd, std::uint64_t bytes);
  /// The owner refused.
  void refuse(std::uint64_t arena);
  /// The owner freed it: it is not found any more; its pages stay mapped until what
  /// take_retired returns is destroyed.
  void retire(std::uint64_t arena);
  [[nodiscard]] bool has_retired() const noexcept;
  /// Takes what was retired; the caller destroys it when no active section is left that began
  /// before.
  [[nodiscard]] std::vector<std::unique_ptr<node>> take_retired();

 private:
  [[nodiscard]] node* look(std::uint64_t arena) const noexcept;

  std::unique_ptr<std::atomic<node*>[]> table_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<node>> retired_;
  std::atomic<bool> has_retired_ = false;
};

}  // namespace verbena::softdev
