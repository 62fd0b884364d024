// SPDX-License-Identifier: MIT
// The receiving side of an endpoint: requests and their fragments to responders, answers and data
// to requesters. Runs in link::receive(). It never waits: if the queue pair of a record is locked,
// or its answer has no room, the record is kept at the head of its ring.
#pragma once

#include <cstddef>
#include <span>

#include "softdev/core/queue_pair_block.hpp"
#include "softdev/fabric/answer_reads.hpp"
#include "softdev/fabric/endpoint_state.hpp"
#include "softdev/fabric/pull_payload.hpp"
#include "softdev/fabric/receive_parts.hpp"
#include "softdev/fabric/receive_short.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, which is in an access epoch while it handles records. Takes locks
/// of queue pairs.
class record_receiver {
 public:
  explicit record_receiver(endpoint_state& state) noexcept
      : state_(state), reads_(state), parts_(state), pulls_(state), shorts_(state) {}

  void begin_batch() noexcept { pulls_.begin_batch(); }

  handled operator()(peer& from, const ring_record& record) noexcept;
  /// Ends a batch of records. Call it in the same access epoch.
  void end_batch() noexcept { shorts_.end(); }
  /// Returns whether the last two records were for different queue pairs.
  [[nodiscard]] bool wants_hints() const noexcept { return mixed_; }
  /// Prefetches the memory that an expected record needs. Its first word is a queue pair number.
  void expect(const ring_consumer::hint& next) const noexcept {
    if (next.type == records::request || next.type == records::reference)
      queue_pair_block::prefetch_receives(state_.home.expected(next.word));
    else if (next.type == records::answer)
      queue_pair_block::prefetch_sends(state_.home.expected(next.word));
  }
  /// Continues the answers that wait for room.
  void run_answers() noexcept { reads_.run(); }
  /// Ends the unfinished answer to a read of a queue pair that is reset or destroyed. Both locks of
  /// the queue pair are held. Thread-safe.
  void give_up_answer(const queue_pair& which, connection& by) noexcept {
    if (by.answer.waits && by.to->state() == peer_state::paired) reads_.give_up(which, by);
  }

 private:
  handled receive_request(peer& from, std::span<const std::byte> bytes) noexcept;
  handled receive_for_group(peer& from, message& what, std::span<const std::byte> bytes) noexcept;
  handled receive_fragment(peer& from, std::span<const std::byte> bytes) noexcept;
  handled refuse_rest(peer& from, const records::fragment_header& header, failure why) noexcept;
  handled receive_answer(peer& from, std::span<const std::byte> bytes) noexcept;
  handled receive_data(peer& from, std::span<const std::byte> bytes) noexcept;
  handled keep() noexcept;
  handled drop() noexcept;
  void begin_request(queue_pair& target, peer& from, const message& what,
                     std::span<const std::byte> payload) noexcept;
  void go_on(queue_pair& target, peer& from, std::span<const std::byte> payload) noexcept;

  endpoint_state& state_;
  std::uint32_t last_ = 0;  ///< the first word of the last record
  bool mixed_ = false;      ///< the first word of the record before was different
  read_answerer reads_;
  part_receiver parts_;
  payload_puller pulls_;
  short_receiver shorts_;
};

}  // namespace verbena::softdev
