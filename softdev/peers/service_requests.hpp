// SPDX-License-Identifier: MIT
// Requests of this process's threads to the service of its link.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "softdev/peers/peer.hpp"
#include "softdev/peers/slot_set.hpp"

namespace verbena::softdev {

/// Counters for diagnosis. Snapshot.
struct link_counters {
  std::uint64_t broken_records = 0;
  std::uint64_t broken_messages = 0;
  std::uint64_t refused_connections = 0;
  std::uint64_t peers_lost = 0;
};

/// Ends peers, which the service removes later, and counts. Threads: thread-safe. Never blocks or
/// allocates.
class service_requests {
 public:
  /// Requests a turn of the service soon.
  void request() noexcept { due_.store(true, std::memory_order_release); }
  [[nodiscard]] bool due() const noexcept { return due_.load(std::memory_order_acquire); }
  /// Clears the request, at the beginning of a turn.
  void clear() noexcept { due_.store(false, std::memory_order_release); }

  /// Ends a peer. A caller outside the service also calls request().
  void end(peer& which, peer_end why) noexcept;
  /// Ends a peer that wrote a malformed record to its ring.
  void end_for_record(peer& which) noexcept;
  /// Ends a peer that sent a malformed message or leaves too many messages unread.
  void end_for_message(peer& which) noexcept;
  /// Requests the removal of a peer that was ended without end().
  void request_removal(const peer& which) noexcept {
    changed_.insert(which.slot());
    repeat_removals();
  }
  /// Requests another attempt to remove ended peers.
  void repeat_removals() noexcept {
    some_ended_.store(true, std::memory_order_release);
    request();
  }
  /// Returns whether peers were ended since the last call.
  [[nodiscard]] bool take_ended() noexcept {
    return some_ended_.exchange(false, std::memory_order_acq_rel);
  }

  /// Count the events of this turn of the service. Only the service calls these three functions.
  void count_event() noexcept { ++events_; }
  void count_change(const peer& which) noexcept {
    changed_.insert(which.slot());
    count_event();
  }
  [[nodiscard]] std::uint32_t take_events() noexcept { return std::exchange(events_, 0); }

  /// Calls `visit(slot)` for each peer that became paired, overdue or ended since the last call.
  template <class Visitor>
  void take_changed(Visitor&& visit) {
    changed_.drain(visit);
  }

  void count_broken_message() noexcept { add(broken_messages_); }
  void count_refused_connection() noexcept { add(refused_connections_); }
  void count_lost_peer() noexcept { add(peers_lost_); }
  [[nodiscard]] link_counters counters() const noexcept;

 private:
  static void add(std::atomic<std::uint64_t>& counter) noexcept {
    counter.fetch_add(1, std::memory_order_relaxed);
  }

  std::atomic<bool> due_ = false;
  std::atomic<bool> some_ended_ = false;
  slot_set changed_;
  std::uint32_t events_ = 0;
  std::atomic<std::uint64_t> broken_records_ = 0;
  std::atomic<std::uint64_t> broken_messages_ = 0;
  std::atomic<std::uint64_t> refused_connections_ = 0;
  std::atomic<std::uint64_t> peers_lost_ = 0;
};

}  // namespace verbena::softdev
