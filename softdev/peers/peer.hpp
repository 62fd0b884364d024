// SPDX-License-Identifier: MIT
// Another process of this host, as a peer of this process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "softdev/core/biased_lock.hpp"
#include "softdev/ipc/reactor.hpp"
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

/// The state of a peer that the link's service needs. Threads: one thread at a time, that of the
/// service.
struct service_notes {
  std::chrono::steady_clock::time_point deadline{};  ///< of pairing, then of the last records
  bool hello_waits = false;                          ///< our hello must still be sent
  bool closing = false;  ///< it exited; its last records are being received
  bool given_arenas = false;
  std::optional<reactor::wanted> watched;  ///< what the service waits for on the socket
};

/// The parts of a peer, for the classes of the link. Threads: as each part states.
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

/// Another process of this host. Thread-safe unless a member states otherwise. Its mappings live as
/// long as the object, which is held by shared_ptr: drop the reference when a queue pair is reset
/// or destroyed.
class peer {
 public:
  /// `marks` must outlive the peer.
  peer(std::uint32_t slot, std::uint32_t own_slot, route_policy policy, peer_marks& marks);
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;

  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  [[nodiscard]] peer_state state() const noexcept { return parts_.status.state(); }
  [[nodiscard]] peer_end end() const noexcept { return parts_.status.why(); }
  /// Returns whether the peer did not answer within link_options::pairing_timeout: it is stopped or
  /// very busy. Pairing still waits for its answer, because the peer cannot distinguish a
  /// connection that was given up from a process that exited.
  [[nodiscard]] bool is_overdue() const noexcept { return parts_.status.is_overdue(); }
  /// The pid of the process; 0 if unknown. Valid once the peer is or was paired.
  [[nodiscard]] pid_t pid() const noexcept { return parts_.process.pid(); }

  /// Returns whether records can be sent. This is true shortly before the state is `paired`, at the
  /// latest when the other side may be paired, and false when the peer is dead.
  [[nodiscard]] bool takes_records() const noexcept { return parts_.status.takes_records(); }

  // ---- Everything below requires that state() was `paired` (also later, when dead). Sending is
  // permitted as soon as takes_records() returns true. ----

  /// The process of the peer, for copies to and from its memory by process_vm_*.
  [[nodiscard]] remote_process& process() noexcept { return parts_.process; }

  // Sending records. The caller holds lock_sends() from try_reserve to announce.

  [[nodiscard]] std::unique_lock<biased_lock> lock_sends() {
    return std::unique_lock(parts_.sends.lock());
  }
  /// Returns whether a record of `bytes` payload certainly fits. Needs no lock; valid until another
  /// record is reserved.
  [[nodiscard]] bool has_room(std::uint32_t bytes) const noexcept {
    return parts_.sends.has_room(bytes);
  }
  /// Longest payload of one record.
  [[nodiscard]] std::uint32_t max_record() const noexcept { return parts_.sends.max_record(); }
  /// Reserves a record (ring_producer::try_reserve). If the ring is full, requests room from the
  /// peer: when there is some, the peer wakes this process's progress thread, and may_have_room()
  /// returns true. `spare` bytes are left to records that must not wait for others.
  [[nodiscard]] ring_producer::reservation try_reserve(std::uint16_t type, std::uint32_t bytes,
                                                       std::uint32_t spare = 0) noexcept {
    return parts_.sends.try_reserve(type, bytes, spare);
  }
  /// Publishes the reserved record: the peer may see it at once.
  void commit() noexcept { parts_.sends.commit(); }
  /// Announces a batch of records: publishes their number, rings the doorbell if the peer uses
  /// doorbells, and wakes the peer's progress thread if it sleeps. Only the wake-up is a system
  /// call. Afterwards, read the arm words of the peer's completion queues to decide about
  /// signal_channel.
  /// With `at_check`, does not wake a progress thread that checks its rings soon. Returns false if
  /// it was not woken for this reason.
  bool announce(attention wanted = attention::at_once) noexcept {
    return parts_.sends.announce(wanted);
  }

  /// The position of the next record: the number of bytes sent since the pairing.
  [[nodiscard]] std::uint64_t position() const noexcept { return parts_.sends.position(); }
  /// Returns whether the peer has consumed all records before `position`. Needs no lock.
  [[nodiscard]] bool has_handled(std::uint64_t position) const noexcept {
    return parts_.sends.has_handled(position);
  }

  /// Returns false if the last reservation failed because the ring was full, and the peer has
  /// consumed nothing since. Needs no lock; reads one word of the peer.
  [[nodiscard]] bool may_have_room() const noexcept { return parts_.sends.may_have_room(); }

  /// Signals a wake channel of the peer (one of its link::channels) if this process has an end of
  /// it. Otherwise requests the end, wakes the peer's progress thread and returns false. One or two
  /// system calls.
  bool signal_channel(wake_channel_id channel) noexcept { return parts_.channels.signal(channel); }

  /// For the owner of queue pairs: the completion queue of the peer and its arming for which an
  /// acknowledgement has signaled the channel.
  std::atomic<std::uint64_t> signalled_by_answer = 0;
  /// The position in the ring after that acknowledgement. Stored before the signal.
  std::atomic<std::uint64_t> signalled_answer_end = 0;

  // Direct access: enter, read the public words, access the memory, leave.

  /// Enters an active section with a sequentially consistent store. If a fence of the peer does not
  /// wait for the section, the section reads the words as they were at the fence or later.
  [[nodiscard]] active_section enter() noexcept { return parts_.lanes.enter(); }
  [[nodiscard]] const peer_segment& segment() const noexcept { return parts_.memory.segment(); }

  using mapped = mapped_arenas::mapped;
  /// Returns [offset, offset+bytes) of a shareable arena, mapped in this process. The caller is in
  /// an active section. The first use requests the mapping (`pending`): take another route until it
  /// is `ready`.
  [[nodiscard]] mapped map(std::uint64_t arena, std::uint64_t offset, std::uint64_t bytes,
                           map_access access) noexcept {
    return parts_.arenas.map(arena, offset, bytes, access);
  }

  // For the owner of queue pairs, about datagrams to multicast groups:

  /// The time since which the ring to the peer has had no room for a datagram; 0 if it has room.
  std::atomic<std::uint64_t> no_room_since = 0;
  /// The last receiver of the datagram at the head of the ring from the peer; guarded by the right
  /// to receive.
  std::uint32_t last_receiver = 0;

  // ---- For the link ----

  [[nodiscard]] peer_parts& parts() noexcept { return parts_; }
  /// Ends the pairing; the first reason is kept.
  void mark_ended(peer_end why) noexcept;
  /// Returns whether a thread of the peer is in an active section and the peer is not gone.
  [[nodiscard]] bool may_be_inside() const noexcept;
  /// Ends the pairing with a peer that stays in an active section; fences no longer wait for it.
  /// Returns false if the call is not the first.
  bool give_up_waiting() noexcept;
  /// Returns whether give_up_waiting() was called and the process may still run: it may write the
  /// memory that it has mapped.
  [[nodiscard]] bool may_write_late() const noexcept;

 private:
  const std::uint32_t slot_;
  std::atomic<bool> gave_up_ = false;  ///< no fence waits for it
  peer_parts parts_;
};

}  // namespace verbena::softdev
