// SPDX-License-Identifier: MIT
// The shareable memory of a peer as it is mapped in this process: asked for at the first use,
// dropped after the peer has freed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "softdev/peers/link_options.hpp"
#include "softdev/peers/pair_memory.hpp"
#include "softdev/peers/peer_messages.hpp"
#include "softdev/peers/slot_set.hpp"
#include "softdev/shm/arena_cache.hpp"
#include "softdev/shm/sealed_memory.hpp"

namespace verbena::softdev {

/// Threads: map() thread-safe; all else one thread at a time, that of the service.
class mapped_arenas {
 public:
  struct options {
    pair_memory& memory;
    peer_messages& messages;
    slot_set& with_retired;  ///< gets `slot` when a mapping is to be dropped
    std::uint32_t slot;      ///< of the peer
    route_policy policy;
  };
  explicit mapped_arenas(const options& how) : how_(how) {}
  mapped_arenas(const mapped_arenas&) = delete;
  mapped_arenas& operator=(const mapped_arenas&) = delete;

  struct mapped {
    map_status status = map_status::unavailable;  ///< never `ask`
    std::byte* address = nullptr;
  };
  /// Inside an active section: [offset, offset+bytes) of an arena.
  [[nodiscard]] mapped map(std::uint64_t arena, std::uint64_t offset, std::uint64_t bytes,
                           map_access access) noexcept;

  /// The peer's answers: arena_cache::insert, refuse; and its news that it freed an arena.
  [[nodiscard]] bool insert(std::uint64_t arena, unique_fd fd, std::uint64_t bytes) {
    return arenas_.insert(arena, std::move(fd), bytes);
  }
  void refuse(std::uint64_t arena) { arenas_.refuse(arena); }
  void retire(std::uint64_t arena);
  /// Drops the retired mappings that no thread can use any more. Returns whether none is left.
  [[nodiscard]] bool drop_retired();

 private:
  /// Mappings that were retired together, and which sections were active then.
  struct retired_mappings {
    std::vector<std::unique_ptr<arena_cache::node>> nodes;
    std::uint64_t used = 0;           ///< own lanes that had been entered
    std::uint64_t lanes[lane_count];  ///< their words when the nodes were retired
  };

  const options how_;
  arena_cache arenas_;
  std::vector<retired_mappings> retired_;
};

}  // namespace verbena::softdev
