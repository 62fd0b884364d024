// SPDX-License-Identifier: MIT
// What an endpoint remembers of a queue pair that communicates with other processes.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <vector>

#include "softdev/core/queue_pair.hpp"
#include "softdev/peers/peer.hpp"

namespace verbena::softdev {

/// Made and dropped under both locks of the queue pair. `answer` is under its receive lock, the
/// rest under its send lock.
struct connection {
  // What each request needs, in one line.
  std::shared_ptr<peer> to;  ///< of datagrams: the last destination's, or none

  /// The request that was pushed last.
  struct {
    bool partly = false;  ///< the ring had no room for the rest
    std::uint32_t psn = 0;
    std::uint64_t bytes = 0;     ///< pushed
    std::uint64_t position = 0;  ///< in the ring, after its last record
  } sent;

  /// Records that were committed and are to be announced at the end of the run.
  struct {
    std::uint32_t qpn = 0;  ///< their receiver; 0: there are none
    bool consume_receives = false;
    bool solicited = false;  ///< one of them
  } unannounced;

  /// A read that went by the ring; nothing may follow it yet.
  struct {
    bool waits = false;
    std::uint32_t psn = 0;
  } read;

  /// The peer's arming that was answered by a signal.
  struct {
    std::uint32_t arming = 0;
    std::uint32_t qpn = 0;
  } signalled;

  /// The answer to a read of the peer.
  struct {
    bool waits = false;
    std::uint64_t bytes = 0;  ///< pushed
  } answer;

  /// Of datagrams: whether the process of the destination was looked for.
  struct {
    bool tried = false;
    std::uint32_t psn = 0;
  } search;
  bool pull_waits = false;  ///< under the receive lock: a payload was copied in part
  bool overdue = false;     ///< a request found `to` overdue: it is tried again when `to` is paired
  std::vector<std::shared_ptr<peer>> peers;  ///< of requests in parts, instead of `to`

  /// A datagram to a multicast group that not every member's ring had room for.
  struct {
    bool waits = false;
    std::uint32_t psn = 0;
    /// The processes that have it; of datagram queue pairs only.
    std::unique_ptr<std::bitset<slot_count>> told;
  } group;

  /// Requests whose payload the peer copies from our memory.
  struct {
    std::uint64_t generation = 0;  ///< as it is published; no other queue pair had it
    std::uint32_t pause = 0;       ///< requests that go through the ring instead
    std::uint32_t last_pause = 0;
    std::uint32_t sent = 0;  ///< since the last refusal; not counted to the end
    bool used = false;       ///< one was sent in this generation
  } references;

  /// Forgets what was under way.
  void interrupt() noexcept { sent.partly = read.waits = answer.waits = false; }
};

static_assert(sizeof(connection) <= queue_pair::path_room_bytes && alignof(connection) <= 64);

}  // namespace verbena::softdev
