// SPDX-License-Identifier: MIT
// The receiving side of a link: the rings of all paired peers, and the choice of the next ring.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "softdev/core/biased_lock.hpp"
#include "softdev/peers/peer.hpp"
#include "softdev/peers/service_requests.hpp"
#include "softdev/peers/slot_set.hpp"
#include "softdev/shm/segment_layout.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::softdev {

/// What a receiver did with a record.
enum class handled : std::uint8_t {
  consumed,
  keep,    ///< leave it at the head and continue with the next peer (back-pressure). The caller
           ///< must receive again when it can be handled: no event requests that
  broken,  ///< it is malformed: count it and end the pairing
};

/// Receives the records of all paired peers. Checks the rings of up to `scan_limit` peers one by
/// one. With more peers, each sets a bit of the doorbell page. Threads: thread-safe, except that
/// one thread at a time calls start(), stop() and peers().
class ring_receiver {
 public:
  struct options {
    std::uint32_t scan_limit;
    public_header& header;  ///< contains the word that requests doorbells
    doorbell_page& bells;
    slot_set& full_rings;
    service_requests& ends;
  };
  explicit ring_receiver(const options& how);
  ring_receiver(const ring_receiver&) = delete;
  ring_receiver& operator=(const ring_receiver&) = delete;

  /// The right to receive, which one thread at a time holds.
  using lock = std::unique_lock<biased_lock>;
  [[nodiscard]] lock try_lock() noexcept { return lock(lock_, std::try_to_lock); }
  /// Passes up to `budget` records to `handler(peer&, const ring_record&) -> handled`, oldest first
  /// per peer. Returns the number of consumed records. No system call unless a peer waits for room.
  template <class Handler>
  std::size_t receive(const lock& held, Handler&& handler, std::size_t budget);

  using time_point = std::chrono::steady_clock::time_point;
  /// Returns whether a peer announced records that were neither consumed nor kept, or returned room
  /// to a ring that was full. Call it before a sleep that ends when peers signal. Sequentially
  /// consistent. Waits for a receive() in progress. With many peers, checks only those that rang;
  /// after 10 ms without a look at all peers, checks all, because a peer can clear the bits of
  /// others.
  [[nodiscard]] bool anything_published(time_point now);
  /// Returns when a sleep must end for a look at all peers; nullopt if the last
  /// anything_published() was one. Only for the thread that calls anything_published().
  [[nodiscard]] std::optional<time_point> next_look() const noexcept {
    return look_is_due_ ? std::optional(next_look_) : std::nullopt;
  }
  /// Returns whether the peer's ring has no record. Waits for a receive() in progress.
  [[nodiscard]] bool is_drained(peer& from);

  void start(const std::shared_ptr<peer>& from);
  void stop(const std::shared_ptr<peer>& from);
  [[nodiscard]] const std::vector<std::shared_ptr<peer>>& peers() const noexcept { return peers_; }
  /// Returns whether the slot has a paired peer to which the ring may have room. The caller holds
  /// the right to receive.
  [[nodiscard]] bool may_have_room(std::uint32_t slot) const noexcept {
    const peer* const to = by_slot_[slot];
    return to != nullptr && to->may_have_room();
  }
  /// Returns whether peers ring the doorbell. A peer that clears the bits of others only delays
  /// their records: after look_at_all(), the next receive() checks all rings.
  [[nodiscard]] bool uses_doorbells() const noexcept { return peers_.size() > how_.scan_limit; }
  void look_at_all() noexcept { look_at_all_.store(true, std::memory_order_relaxed); }

  /// Aborts the program if this thread is in receive().
  void forbid_in_handler() const;

 private:
  /// Stores which thread is in receive(), to detect calls that handlers must not make.
  class receiver_mark {
   public:
    explicit receiver_mark(std::atomic<pthread_t>& who) noexcept : who_(who) {
      who_.store(::pthread_self(), std::memory_order_relaxed);
    }
    ~receiver_mark() { who_.store({}, std::memory_order_relaxed); }
    receiver_mark(const receiver_mark&) = delete;
    receiver_mark& operator=(const receiver_mark&) = delete;

   private:
    std::atomic<pthread_t>& who_;
  };

  template <class Handler>
  std::size_t receive_from(peer& from, Handler& handler, std::size_t budget);
  void collect_doorbells();
  bool published_by(peer& from);
  bool published_by_any();
  bool published_by_some();
  [[nodiscard]] bool room_came_back();

  const options how_;
  biased_lock lock_;
  std::atomic<pthread_t> receiving_thread_{};
  std::vector<std::shared_ptr<peer>> peers_;
  std::array<peer*, slot_count> by_slot_{};
  std::array<std::uint64_t, slot_count / 64> ready_{};
  /// With many peers, the most records that one of them passes before the next one is served.
  static constexpr std::size_t records_of_turn = 64;
  std::size_t first_ = 0;
  std::size_t next_slot_ = 0;  ///< with many peers: the slot that is served first
  std::atomic<bool> look_at_all_ = false;
  time_point next_look_{};
  bool look_is_due_ = false;  ///< the last look before a sleep did not check all peers
};

template <class Handler>
std::size_t ring_receiver::receive([[maybe_unused]] const lock& held, Handler&& handler,
                                   std::size_t budget) {
  VERBENA_CHECK(held.owns_lock(), "who receives has the right to");
  const receiver_mark mark(receiving_thread_);
  std::size_t done = 0;
  const std::size_t count = peers_.size();
  const bool all = !uses_doorbells() || look_at_all_.load(std::memory_order_relaxed);
  if (all) {
    if (uses_doorbells()) look_at_all_.store(false, std::memory_order_relaxed);
    for (std::size_t step = 0; step < count && done < budget; ++step) {
      first_ = first_ + 1 < count ? first_ + 1 : 0;
      done += receive_from(*peers_[first_], handler, budget - done);
    }
    return done;
  }
  collect_doorbells();
  // Begins after the peer that was served last. The word of that peer is visited twice: first the
  // bits behind it, at the end the others.
  const std::size_t start = next_slot_;
  const std::uint64_t behind = ~std::uint64_t{0} << (start % 64);
  std::size_t word = start / 64;
  for (std::size_t step = 0; step <= ready_.size() && done < budget;
       ++step, word = word + 1 < ready_.size() ? word + 1 : 0) {
    std::uint64_t left = ready_[word];
    if (left == 0) continue;
    if (step == 0) left &= behind;
    if (step == ready_.size()) left &= ~behind;
    for (; left != 0 && done < budget; left &= left - 1) {
      const auto bit = static_cast<std::size_t>(std::countr_zero(left));
      ready_[word] &= ~(std::uint64_t{1} << bit);
      peer* from = by_slot_[word * 64 + bit];
      if (from == nullptr) continue;
      next_slot_ = (word * 64 + bit + 1) % slot_count;
      const std::size_t share = std::min(budget - done, records_of_turn);
      const std::size_t received = receive_from(*from, handler, share);
      done += received;
      // The ring may have more records, for which the peer does not ring again.
      const bool more = received == share || from->parts().receives.keeps_record();
      if (more) ready_[word] |= std::uint64_t{1} << bit;
    }
  }
  return done;
}

template <class Handler>
std::size_t ring_receiver::receive_from(peer& from, Handler& handler, std::size_t budget) {
  if (from.state() != peer_state::paired) return 0;
  incoming_ring& ring = from.parts().receives;
  std::size_t done = 0;
  ring_record record;
  while (done < budget) {
    const ring_status status = ring.peek(record);
    if (status == ring_status::empty) break;
    if constexpr (requires { handler.wants_hints(); }) {
      if (handler.wants_hints())
        while (const auto next = ring.next_hint()) handler.expect(*next);
    }
    const handled what =
        status == ring_status::ok ? handler(from, std::as_const(record)) : handled::broken;
    if (what == handled::broken) {
      how_.ends.end_for_record(from);
      break;
    }
    if (what == handled::keep) {
      ring.keep();
      break;
    }
    ring.consume();
    ++done;
  }
  if constexpr (requires { handler.end_batch(); }) handler.end_batch();
  if (done != 0) ring.end_batch();
  return done;
}

}  // namespace verbena::softdev
