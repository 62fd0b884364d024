// SPDX-License-Identifier: MIT
// The state that an endpoint keeps for a queue pair that communicates with other processes.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <vector>

#include "softdev/core/queue_pair.hpp"
#include "softdev/peers/peer.hpp"

namespace verbena::softdev {

/// Returns the value of peer::signalled_by_answer for an arming of a completion queue.
[[nodiscard]] inline std::uint64_t mark_of(const completion_queue_line& line,
                                           std::uint32_t arming) noexcept {
  return reinterpret_cast<std::uintptr_t>(&line) / sizeof(line) << 32 | arming;
}

/// Requests to one queue pair that are announced together.
struct announced_requests {
  announced_requests() noexcept = default;
  /// One request, which consumes a receive.
  explicit announced_requests(const message& what) noexcept
      : qpn(what.destination_qpn),
        attempt(what.attempt),
        consume_receives(true),
        solicited(what.solicited) {}

  std::uint32_t qpn = 0;      ///< their receiver; 0: there are none
  std::uint16_t attempt = 0;  ///< of the last one that consumes a receive
  bool consume_receives = false;
  bool solicited = false;  ///< true if one of them is
  bool acknowledged = false;
};

/// Created and destroyed with both locks of the queue pair held. The receive lock guards `answer`
/// and `pull_waits`, the send lock guards the rest. `too_early` changes with both locks held.
struct connection {
  // The members that each request needs, in one cache line.
  std::shared_ptr<peer> to;  ///< for datagrams: that of the last destination, or nullptr

  /// The request that was written to the ring last.
  struct {
    bool partly = false;  ///< the ring had no room for the rest
    std::uint32_t psn = 0;
    std::uint64_t bytes = 0;     ///< written
    std::uint64_t position = 0;  ///< in the ring, after its last record
  } sent;

  /// Records that were committed and will be announced at the end of the run.
  announced_requests unannounced;

  /// A read that was sent through the ring. No request may follow until its answer arrives.
  struct {
    bool waits = false;
    std::uint32_t psn = 0;
  } read;

  /// The last arming of the peer for which a signal was sent.
  struct {
    std::uint32_t arming = 0;
    std::uint32_t qpn = 0;
    std::uint32_t position = 0;  ///< in the ring, after the request; the low 32 bits
    std::uint16_t attempt = 0;   ///< of the request
  } signalled;

  /// The answer to a read of the peer.
  struct {
    bool waits = false;
    std::uint16_t attempt = 0;  ///< of the read, as the two below
    std::uint32_t psn = 0;
    std::uint32_t source_qpn = 0;
    std::uint64_t bytes = 0;  ///< written
  } answer;

  /// For datagrams: whether the process of the destination was searched for.
  struct {
    bool tried = false;
    std::uint32_t psn = 0;
  } search;
  /// The number of records that `to` had announced when the queue pair became ready to receive.
  /// Requests in them were sent too early, or in an earlier connection of the same queue pairs.
  std::uint64_t too_early = 0;
  bool pull_waits = false;  ///< a payload was copied in part
  bool overdue = false;     ///< a request found `to` overdue: it is tried again when `to` is paired
  std::vector<std::shared_ptr<peer>> peers;  ///< for requests in parts, instead of `to`

  /// A datagram to a multicast group for which the ring to some process had no room.
  struct {
    bool waits = false;
    std::uint32_t psn = 0;
    /// The processes that have received it; only for datagram queue pairs.
    std::unique_ptr<std::bitset<slot_count>> delivered;
  } group;

  /// Requests whose payload the peer copies from our memory.
  struct {
    std::uint64_t generation = 0;  ///< as published; never that of another queue pair
    std::uint32_t pause = 0;       ///< number of next requests that go through the ring instead
    std::uint32_t last_pause = 0;
    std::uint32_t sent = 0;  ///< number since the last refusal; saturates
    bool used = false;       ///< one was sent in this generation
  } references;

  /// Returns whether the record at the head of the ring from `to` was sent before the queue pair
  /// was ready to receive. The caller holds the right to receive.
  [[nodiscard]] bool precedes() const noexcept {
    return to->parts().receives.consumed_records() < too_early;
  }
  /// Discards the progress of unfinished requests and answers.
  void interrupt() noexcept { sent.partly = read.waits = answer.waits = false; }
};

static_assert(sizeof(connection) <= queue_pair::path_room_bytes && alignof(connection) <= 64);

}  // namespace verbena::softdev
