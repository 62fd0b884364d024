// SPDX-License-Identifier: MIT
// Waits until peers have left the active sections in which they may use objects that were just
// invalidated.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "softdev/peers/peer_service.hpp"
#include "softdev/peers/peer_table.hpp"
#include "softdev/peers/service_requests.hpp"
#include "softdev/shm/arena.hpp"
#include "softdev/shm/segment.hpp"
#include "verbena/base/deadline.hpp"

namespace verbena::softdev {

enum class fence_outcome : std::uint8_t {
  clear,
  timed_out,  ///< some peer is still inside a section that began before the call
};

/// The fence of a link. Threads: thread-safe.
class section_fence {
 public:
  struct options {
    peer_table& peers;
    public_segment& segment;
    arena_registry& arenas;
    service_requests& requests;
    /// After this time in one section, a peer's pairing ends.
    std::chrono::milliseconds section_timeout;
    peer_service& service;  ///< reads hellos of peers, which may access memory before that
  };
  explicit section_fence(const options& how) : how_(how) {}
  section_fence(const section_fence&) = delete;
  section_fence& operator=(const section_fence&) = delete;

  /// Waits until no peer is in an active section that began before the call; see link::fence().
  [[nodiscard]] fence_outcome wait(deadline until) noexcept;
  /// Waits likewise when a region at `memory` is deregistered; see link::fence_memory().
  void wait_for_memory(const void* memory) noexcept;

 private:
  struct lane_mark;
  enum class stopped_peers : std::uint8_t { wait_for, pass_over };
  enum class wait_end : std::uint8_t { left, passed_over, timed_out };
  [[nodiscard]] std::vector<lane_mark> marks() const noexcept;
  [[nodiscard]] std::vector<lane_mark> odd_lanes() const;
  [[nodiscard]] wait_end wait_for_marks(stopped_peers stopped, deadline until) noexcept;
  void give_up_waiting(const std::vector<lane_mark>& left) noexcept;
  [[nodiscard]] bool replace_pages_of(const void* memory) noexcept;
  [[nodiscard]] std::optional<arena_registry::replaced> move_pages(const void* memory) noexcept;

  const options how_;
};

}  // namespace verbena::softdev
