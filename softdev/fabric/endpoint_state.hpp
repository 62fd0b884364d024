// SPDX-License-Identifier: MIT
// State that the parts of an endpoint share: the engine, the peers, and the queue pairs that wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "softdev/core/active_set.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/spread_counter.hpp"
#include "softdev/fabric/acknowledgements.hpp"
#include "softdev/fabric/connection.hpp"
#include "softdev/fabric/direct_access.hpp"
#include "softdev/fabric/queue_pairs_by_slot.hpp"
#include "softdev/peers/link.hpp"

namespace verbena::softdev {

/// How much of a request was written to the ring; `refused`: memory is not accessible.
enum class pushed : std::uint8_t { all, no_room, refused };

/// Threads: thread-safe.
struct endpoint_state {
  endpoint_state(engine& of, link& to);

  engine& home;
  link& peer_link;
  queue_pairs_by_slot connected;  ///< own queue pairs that are connected to one process
  active_set addressed;           ///< own queue pairs of transports without connections
  queue_pairs_by_slot waiting;    ///< own queue pairs that wait for one process: room or pairing
  active_set blocked;             ///< own queue pairs that wait for room in one of several rings
  active_set lost;                ///< own queue pairs whose peer process may be dead
  /// A record was kept because a lock was held, or another thread was inside.
  std::atomic<bool> needs_progress{false};
  std::atomic<bool> unfinished{false};  ///< needs_progress, and must continue at once
  std::atomic<bool> some_lost{false};   ///< a pairing ended
  direct_access direct;
  acknowledgements successes;
  spread_counter by_ring;
  spread_counter dropped;

  [[nodiscard]] static std::uint32_t index_of(const queue_pair& which) noexcept {
    return which.number() % limits::queue_pair_indices;
  }
  /// Returns the connection of an own queue pair; nullptr if it has none.
  [[nodiscard]] static connection* connection_of(const queue_pair& which) noexcept {
    return static_cast<connection*>(which.path().state());
  }
  [[nodiscard]] queue_pair* own(std::uint32_t index) const noexcept {
    return home.find(number_at(peer_link.slot(), index));
  }
  /// Returns the process of a slot, and begins to pair if it is new. Returns nullptr if memory is
  /// exhausted: try again later.
  [[nodiscard]] std::shared_ptr<peer> try_connect(std::uint32_t slot) noexcept;
  void wait_for_room(const queue_pair& which, const peer& to) noexcept {
    waiting.insert(to.slot(), index_of(which));
  }
  /// Removes a queue pair that its own timer runs again. The queue pairs behind it are next.
  void stop_waiting(const queue_pair& which) noexcept { waiting.erase(index_of(which)); }
  void wait_for_rings(const queue_pair& which) noexcept { blocked.insert(index_of(which)); }
  void note_lost(const queue_pair& which) noexcept {
    lost.insert(index_of(which));
    set_some_lost();
  }
  void set_needs_progress() noexcept { needs_progress.store(true, std::memory_order_release); }
  void set_some_lost() noexcept { some_lost.store(true, std::memory_order_release); }
  void set_unfinished() noexcept {
    unfinished.store(true, std::memory_order_relaxed);
    set_needs_progress();
  }
  /// Counts requests of `sender` that were written to the ring of `to`. If the ring was full
  /// before, the next progress() runs the other queue pairs that wait for room.
  void note_by_ring(const queue_pair& sender, peer& to, std::uint64_t requests = 1) noexcept {
    by_ring.add(requests);
    if (to.parts().sends.take_room_used()) [[unlikely]]
      home.ring(sender);
  }
  void note_dropped() noexcept { dropped.add(); }

  /// The bytes of a ring that requests and the data of reads leave to answers.
  [[nodiscard]] std::uint32_t reserve_for_answers() const noexcept {
    return peer_link.options().ring_bytes / 2;
  }
  /// Returns whether the ring has room for the answer to a request. One thread at a time: only
  /// answers use that half of the ring, and only the receiving thread sends answers.
  [[nodiscard]] static bool room_for_answer(peer& to) noexcept;
  /// Sends the answer to `what`, if its transport has answers.
  void answer(peer& to, const message& what, const response& outcome) noexcept;
};

/// Returns the response to a request to an overdue process: then the request's own timeout counts.
[[nodiscard]] response from_overdue(const message& what) noexcept;
/// Returns the response to a request to a dead process; from_overdue() if only resources are
/// missing in this process.
[[nodiscard]] response from_dead(const peer& to, const message& what) noexcept;
/// Returns the reason why a queue pair of a dead peer does not answer.
[[nodiscard]] failure loss_of(const peer& to, std::uint32_t qp_num) noexcept;

}  // namespace verbena::softdev
