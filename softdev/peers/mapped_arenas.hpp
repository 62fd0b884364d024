// SPDX-License-Identifier: MIT
// Mappings of a peer's shareable memory in this process. A mapping is requested at the first use
// and dropped after the peer has freed the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "softdev/peers/link_options.hpp"
#include "softdev/peers/pair_memory.hpp"
#include "softdev/peers/peer_messages.hpp"
#include "softdev/peers/slot_set.hpp"
#include "softdev/shm/mapping_table.hpp"
#include "softdev/shm/sealed_memory.hpp"

namespace verbena::softdev {

/// Threads: map() is thread-safe. Only the service calls the other functions.
class mapped_arenas {
 public:
  struct options {
    pair_memory& memory;
    peer_messages& messages;
    slot_set& with_retired;  ///< `slot` is added when a mapping must be dropped
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
  /// Maps [offset, offset+bytes) of an arena. The caller is in an active section.
  [[nodiscard]] mapped map(std::uint64_t arena, std::uint64_t offset, std::uint64_t bytes,
                           map_access access) noexcept;

  /// Handle the peer's answers (see mapping_table::insert and refuse), and its message that it
  /// freed an arena.
  [[nodiscard]] bool insert(std::uint64_t arena, unique_fd fd, std::uint64_t bytes) {
    return arenas_.insert(arena, std::move(fd), bytes);
  }
  void refuse(std::uint64_t arena) { arenas_.refuse(arena); }
  void retire(std::uint64_t arena);
  /// Drops the retired mappings that no thread can still use. Returns whether all were dropped.
  [[nodiscard]] bool drop_retired();

 private:
  /// Mappings that were retired together, and the sections that were active at that time.
  struct retired_mappings {
    std::vector<std::unique_ptr<mapping_table::node>> nodes;
    std::uint64_t used = 0;           ///< own lanes that had been entered
    std::uint64_t lanes[lane_count];  ///< their words when the nodes were retired
  };

  const options how_;
  mapping_table arenas_;
  std::vector<retired_mappings> retired_;
};

}  // namespace verbena::softdev
