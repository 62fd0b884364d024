// SPDX-License-Identifier: MIT
// The initiator's mappings of one peer's arenas. A mapping is requested on first use. Until the
// owner answers, the caller uses another route.
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
  ask,          ///< not mapped: mark_asked(), send the request, then use another route
  pending,      ///< requested: use another route until the owner answers
  unavailable,  ///< the owner or the system refused, or the range is not in the arena
};

/// Finds the mappings of arenas. Lookups are lock-free and do not allocate. Callers find and use an
/// address inside one active section of the peer, so that mappings can be destroyed safely.
/// Thread-safe.
class mapping_table {
 public:
  static constexpr std::size_t capacity = 1024;

  /// One arena of the peer: requested, mapped or refused. Opaque to callers.
  struct node {
    enum class stage : std::uint8_t { asked, ready, refused };
    explicit node(std::uint64_t id) noexcept : arena(id) {}

    const std::uint64_t arena;
    std::atomic<stage> at = stage::asked;
    std::atomic<bool> writable = false;
    mapping map;  ///< written before `at` becomes ready
  };

  mapping_table();
  ~mapping_table();
  mapping_table(const mapping_table&) = delete;
  mapping_table& operator=(const mapping_table&) = delete;

  struct found {
    map_status status = map_status::unavailable;
    std::byte* address = nullptr;
  };
  /// Returns the address at which [offset, offset+bytes) of `arena` is mapped.
  [[nodiscard]] found find(std::uint64_t arena, std::uint64_t offset, std::uint64_t bytes,
                           map_access access) noexcept;
  /// Records a request for `arena`. Returns false if it was already requested, or if there is no
  /// room or no memory.
  bool mark_asked(std::uint64_t arena);
  /// Undoes mark_asked() if the request could not be sent.
  void forget(std::uint64_t arena);
  /// Maps the memory that the owner sent. Returns false if it was not requested or is not sealed
  /// memory of `bytes`.
  bool insert(std::uint64_t arena, unique_fd fd, std::uint64_t bytes);
  /// Records that the owner refused the request.
  void refuse(std::uint64_t arena);
  /// Removes an arena that the owner freed. Its pages stay mapped until the result of
  /// take_retired() is destroyed.
  void retire(std::uint64_t arena);
  [[nodiscard]] bool has_retired() const noexcept;
  /// Returns the retired arenas. The caller destroys them when all active sections that began
  /// before have ended.
  [[nodiscard]] std::vector<std::unique_ptr<node>> take_retired();

 private:
  [[nodiscard]] node* look(std::uint64_t arena) const noexcept;

  std::unique_ptr<std::atomic<node*>[]> table_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<node>> retired_;
  std::atomic<bool> has_retired_ = false;
};

}  // namespace verbena::softdev
