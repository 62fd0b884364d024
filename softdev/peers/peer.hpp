// SPDX-License-Identifier: MIT
// One other process of this host, as this process reaches it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include "softdev/core/biased_lock.hpp"
#include "softdev/peers/active_section.hpp"
#include "softdev/peers/channel_signals.hpp"
#include "softdev/peers/incoming_ring.hpp"
#include "softdev/peers/link_options.hpp"
#include "softdev/peers/mapped_arenas.hpp"
#include "softdev/peers/outgoing_ring.hpp"
#include "softdev/peers/pair_memory.hpp"
#include "softdev/peers/peer_messages.hpp"
#include "softdev/peers/peer_status.hpp"
#include "softdev/peers/remote_process.hpp"
#include "softdev/peers/slot_set.hpp"
#include "softdev/shm/segment.hpp"

namespace verbena::softdev {

/// What the service of the link notes about a peer. Threads: one thread at a time, that of the
/// service.
struct service_notes {
  std::chrono::steady_clock::time_point deadline{};  ///< of pairing, then of the last records
  bool hello_waits = false;                          ///< it had no room in the socket
  bool closing = false;  ///< it exited; its last records are being received
  bool given_arenas = false;
};

/// What a peer consists of, for the parts of the link. Threads: as each part says.
struct peer_parts {
  peer_status status;
  remote_process process;
  pair_memory memory;
  peer_messages messages;
  outgoing_ring sends;
  incoming_ring receives;
  channel_signals channels;
  section_lanes lanes;
  mapped_arenas arenas;
  service_notes service;
};

/// One other process. Thread-safe unless a member says otherwise; held by shared_ptr, and its
/// mappings live as long as it: drop the reference when a queue pair is reset or destroyed.
class peer {
 public:
  /// `marks` outlive it.
  peer(std::uint32_t slot, std::uint32_t own_slot, route_policy policy, peer_marks& marks);
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;

  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  [[nodiscard]] peer_state state() const noexcept { return parts_.status.state(); }
  [[nodiscard]] peer_end end() const noexcept { return parts_.status.why(); }
  /// True when it did not answer within link_options::pairing_timeout: it is stopped or very busy.
  /// It is paired as soon as it answers, because it cannot tell a connection that was given up
  /// from a process that exited.
  [[nodiscard]] bool is_overdue() const noexcept { return parts_.status.is_overdue(); }
  /// The process's pid, 0 when unknown. Only when paired or dead after that.
  [[nodiscard]] pid_t pid() const noexcept { return parts_.process.pid(); }

  /// Whether records can be sent already: somewhat before it is `paired`, at the latest when the
  /// other side may take itself for paired; until it is dead.
  [[nodiscard]] bool takes_records() const noexcept { return parts_.status.takes_records(); }

  // ---- Everything below: only once state() was `paired` (also later, when dead), sending also
  // once takes_records() is true. ----

  /// Its process: copies to and from its memory by process_vm_*.
  [[nodiscard]] remote_process& process() noexcept { return parts_.process; }

  // Sending records. The caller holds lock_sends() from try_reserve to announce.

  [[nodiscard]] std::unique_lock<biased_lock> lock_sends() {
    return std::unique_lock(parts_.sends.lock());
  }
  /// Returns whether a record of `bytes` payload certainly fits now, without the lock: it fits
  /// until somebody sends.
  [[nodiscard]] bool has_room(std::uint32_t bytes) const noexcept {
    return parts_.sends.has_room(bytes);
  }
  /// Longest payload of one record.
  [[nodiscard]] std::uint32_t max_record() const noexcept { return parts_.sends.max_record(); }
  /// Reserves a record (ring_producer::try_reserve). When the ring is full, the peer is told to
  /// wake us (the progress thread) when there is room, and may_have_room() becomes true. `corrupt`
  /// ends the peer. `spare` bytes are left to records that must not wait for others.
  [[nodiscard]] ring_producer::reservation try_reserve(std::uint16_t type, std::uint32_t bytes,
                                                       std::uint32_t spare = 0) noexcept {
    return parts_.sends.try_reserve(type, bytes, spare);
  }
  /// Publishes the reserved record: the peer may see it at once.
  void commit() noexcept { parts_.sends.commit(); }
  /// Ends a batch: counts it, rings the doorbell if the peer wants it, wakes its progress thread if
  /// that sleeps. A system call only in the last case. Afterwards, read the arm words of its queue
  /// pairs to decide about signal_channel.
  void announce() noexcept { parts_.sends.announce(); }

  /// Where the next record begins, in bytes ever sent.
  [[nodiscard]] std::uint64_t position() const noexcept { return parts_.sends.position(); }
  /// True when the peer has handled everything before that position. No lock needed.
  [[nodiscard]] bool has_handled(std::uint64_t position) const noexcept {
    return parts_.sends.has_handled(position);
  }

  /// False when the last reservation failed for want of room and the peer has consumed nothing
  /// since. No lock needed; looks at one word of the peer.
  [[nodiscard]] bool may_have_room() const noexcept { return parts_.sends.may_have_room(); }

  /// Signals a wake channel of the peer (one of link::channels there), when our end of
  /// it is known; otherwise asks for it, wakes the peer's progress thread instead, and returns
  /// false. One or two system calls.
  bool signal_channel(wake_channel_id channel) noexcept { return parts_.channels.signal(channel); }

  // Direct access. Enter, look the words up, act, leave.

  /// Enters an active section with a sequentially consistent store: words read inside are no older
  /// than a fence of the peer that does not wait for it.
  [[nodiscard]] active_section enter() noexcept { return parts_.lanes.enter(); }
  [[nodiscard]] const peer_segment& segment() const noexcept { return parts_.memory.segment(); }

  using mapped = mapped_arenas::mapped;
  /// Inside an active section: [offset, offset+bytes) of a shareable arena, mapped here. On first
  /// use it is asked for (`pending`): take another route until it is `ready`.
  [[nodiscard]] mapped map(std::uint64_t arena, std::uint64_t offset, std::uint64_t bytes,
                           map_access access) noexcept {
    return parts_.arenas.map(arena, offset, bytes, access);
  }

  /// For the code that owns queue pairs, of datagrams to multicast groups: since when there was no
  /// room for one, 0 when there was; and the receiver that had the one at the head of its ring last
  /// (under the receive lock).
  std::atomic<std::uint64_t> no_room_since = 0;
  std::uint32_t last_receiver = 0;

  // ---- For the link ----

  [[nodiscard]] peer_parts& parts() noexcept { return parts_; }
  /// Ends the pairing, for the first reason that is given.
  void die(peer_end why) noexcept;
  /// True when a thread of the peer is inside an active section, and the peer is not gone.
  [[nodiscard]] bool may_be_inside() const noexcept;
  /// Ends the pairing of a peer that stays within a section: nothing waits for it any more. False
  /// when that was done before.
  bool give_up_waiting() noexcept;
  /// True when that was done, and the process may still run and write what it has mapped.
  [[nodiscard]] bool may_write_late() const noexcept;

 private:
  const std::uint32_t slot_;
  std::atomic<bool> gave_up_ = false;  ///< no fence waits for it
  peer_parts parts_;
};

}  // namespace verbena::softdev
