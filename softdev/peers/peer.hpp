// SPDX-License-Identifier: MIT
// One other process of this host, as this process reaches it.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "softdev/core/biased_lock.hpp"
#include "softdev/ipc/process_memory.hpp"
#include "softdev/ipc/process_watch.hpp"
#include "softdev/peers/link_options.hpp"
#include "softdev/peers/pairing_message.hpp"
#include "softdev/peers/wake_channels.hpp"
#include "softdev/shm/arena_cache.hpp"
#include "softdev/shm/ring.hpp"
#include "softdev/shm/segment.hpp"

namespace verbena::softdev {

class peer;
struct peer_marks;

enum class peer_state : std::uint8_t {
  connecting,  ///< wait: link::service drives it; is_overdue() tells when that takes long
  paired,
  dead,  ///< for good; a new process in the slot is a new peer (link::connect again)
};

/// Why a peer is dead.
enum class peer_end : std::uint8_t {
  none,
  nobody_there,      ///< no process holds the slot
  exited,            ///< it exited, was killed, or closed its link
  other_user,        ///< the slot is held by another user
  other_version,     ///< its device has another layout version
  broken_protocol,   ///< it sent or wrote what no correct process does
  out_of_resources,  ///< descriptors or memory are missing here
  too_many_links,    ///< see link_options::links_per_process
  stayed_inside,     ///< see link_options::section_timeout
};
[[nodiscard]] const char* describe(peer_end why) noexcept;
/// True when it may live, and only something is missing here: it may be found again.
[[nodiscard]] constexpr bool is_out_of_reach(peer_end why) noexcept {
  return why == peer_end::out_of_resources;
}

/// While it lives, this thread may access the peer's memory and public words; the peer's fence
/// waits for it. Keep it short: at most one posted list. Movable. Threads: thread-bound.
class active_section {
 public:
  active_section() noexcept = default;
  active_section(active_section&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), lane_(other.lane_) {}
  active_section& operator=(active_section&&) = delete;
  ~active_section() { leave(); }
  /// False when all lanes were taken: execute by the ring instead, or try again.
  [[nodiscard]] explicit operator bool() const noexcept { return owner_ != nullptr; }
  void leave() noexcept;

 private:
  friend class peer;
  active_section(peer& owner, std::uint32_t lane) noexcept : owner_(&owner), lane_(lane) {}
  peer* owner_ = nullptr;
  std::uint32_t lane_ = 0;
};

/// One other process. Thread-safe unless a member says otherwise; held by shared_ptr, and its
/// mappings live as long as it: drop the reference when a queue pair is reset or destroyed.
class peer {
 public:
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;
  ~peer();

  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  [[nodiscard]] peer_state state() const noexcept { return state_.load(std::memory_order_acquire); }
  [[nodiscard]] peer_end end() const noexcept { return end_.load(std::memory_order_acquire); }
  /// True when it did not answer within link_options::pairing_timeout: it is stopped or very busy.
  /// It is paired as soon as it answers, because it cannot tell a connection that was given up
  /// from a process that exited.
  [[nodiscard]] bool is_overdue() const noexcept {
    return overdue_.load(std::memory_order_acquire);
  }
  /// The process's pid, 0 when unknown. Only when paired or dead after that.
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// Whether records can be sent already: somewhat before it is `paired`, at the latest when the
  /// other side may take itself for paired; until it is dead.
  [[nodiscard]] bool takes_records() const noexcept {
    return has_ring_.load(std::memory_order_acquire) && state() != peer_state::dead;
  }

  // ---- Everything below: only once state() was `paired` (also later, when dead), sending also
  // once takes_records() is true. ----

  /// What process_vm_* can do towards it, found by trial and the route policy.
  [[nodiscard]] copy_routes routes() const noexcept {
    return cma_closed_.load(std::memory_order_relaxed) ? copy_routes{} : routes_;
  }

  // Sending records. The caller holds lock_sends() from try_reserve to announce.

  [[nodiscard]] std::unique_lock<biased_lock> lock_sends() { return std::unique_lock(send_lock_); }
  /// Returns whether a record of `bytes` payload certainly fits now, without the lock: it fits
  /// until somebody sends.
  [[nodiscard]] bool has_room(std::uint32_t bytes) const noexcept {
    return producer_.has_room(bytes);
  }
  /// Longest payload of one record.
  [[nodiscard]] std::uint32_t max_record() const noexcept { return max_record_; }
  /// Reserves a record (ring_producer::try_reserve). When the ring is full, the peer is told to
  /// wake us (the progress thread) when there is room, and may_have_room() becomes true. `corrupt`
  /// ends the peer. `spare` bytes are left to records that must not wait for others.
  [[nodiscard]] ring_producer::reservation try_reserve(std::uint16_t type, std::uint32_t bytes,
                                                       std::uint32_t spare = 0) noexcept;
  /// Publishes the reserved record: the peer may see it at once.
  void commit() noexcept { producer_.commit(); }
  /// Ends a batch: counts it, rings the doorbell if the peer wants it, wakes its progress thread if
  /// that sleeps. A system call only in the last case. Afterwards, read the arm words of its queue
  /// pairs to decide about signal_channel.
  void announce() noexcept;

  /// Where the next record begins, in bytes ever sent.
  [[nodiscard]] std::uint64_t position() const noexcept { return producer_.position(); }
  /// True when the peer has handled everything before that position. No lock needed.
  [[nodiscard]] bool has_handled(std::uint64_t position) const noexcept {
    return their_pair().consumed_bytes.load(std::memory_order_acquire) >= position;
  }

  /// False when the last reservation failed for want of room and the peer has consumed nothing
  /// since. No lock needed; looks at one word of the peer.
  [[nodiscard]] bool may_have_room() const noexcept;

  /// Signals a wake channel of the peer (link::create_wake_channel there), when our end of
  /// it is known; otherwise asks for it, wakes the peer's progress thread instead, and returns
  /// false. One or two system calls.
  bool signal_channel(wake_channel_id channel) noexcept;

  // Direct access. Enter, look the words up, act, leave.

  /// Enters an active section with a sequentially consistent store: words read inside are no older
  /// than a fence of the peer that does not wait for it.
  [[nodiscard]] active_section enter() noexcept;
  [[nodiscard]] const peer_segment& segment() const noexcept { return segment_; }

  struct mapped {
    map_status status = map_status::unavailable;  ///< never `ask`
    std::byte* address = nullptr;
  };
  /// Inside an active section: [offset, offset+bytes) of a shareable arena, mapped here. On first
  /// use it is asked for (`pending`): take another route until it is `ready`.
  [[nodiscard]] mapped map(std::uint64_t arena, std::uint64_t offset, std::uint64_t bytes,
                           map_access access) noexcept;
  /// Inside an active section: copies by process_vm_readv/writev at addresses of the peer. A
  /// `not_permitted` closes the route; a dead process is `process_gone`.
  [[nodiscard]] copy_outcome read(std::span<const iovec> local,
                                  std::span<const iovec> remote) noexcept;
  [[nodiscard]] copy_outcome write(std::span<const iovec> local,
                                   std::span<const iovec> remote) noexcept;

  /// For the code that owns queue pairs, of datagrams to multicast groups: since when there was no
  /// room for one, 0 when there was; and the receiver that had the one at the head of its ring last
  /// (under the receive lock).
  std::atomic<std::uint64_t> no_room_since = 0;
  std::uint32_t last_receiver = 0;

 private:
  // The parts of this process's side of the pairing.
  friend class link;
  friend struct own_side;
  friend class pairing;
  friend class peer_service;
  friend class peer_table;
  friend class service_descriptors;
  friend class ring_receiver;
  friend class section_fence;
  friend class service_requests;
  friend class active_section;
  struct channel_slot;
  static constexpr std::uint64_t no_position = ~std::uint64_t{0};

  peer(std::uint32_t slot, std::uint32_t own_slot, route_policy policy, peer_marks& marks);

  [[nodiscard]] pair_header& own_pair() const noexcept { return *own_map_.at<pair_header>(0); }
  [[nodiscard]] const pair_header& their_pair() const noexcept {
    return *their_map_.at<pair_header>(0);
  }
  void die(peer_end why) noexcept;
  /// For a child of fork: takes no lock.
  void close_descriptors() noexcept;
  /// Sends or queues a message (under the link's service lock); false when too many wait already.
  bool post_message(const link_message& message, unique_fd descriptor);
  /// Announced records that were kept at the head of the ring (under the receive lock).
  [[nodiscard]] std::uint64_t kept() const noexcept {
    return kept_at_ == no_position ? 0 : kept_at_;
  }
  /// Keeps and signals our end of a wake channel; an empty one means that it was refused.
  void take_channel(wake_channel_id id, unique_fd fd);
  [[nodiscard]] channel_slot* place_of_channel(wake_channel_id channel) noexcept;
  /// Sends what is queued as far as it goes.
  void flush_messages();
  /// Returns whether the process has exited. If it cannot be watched (it is in another pid
  /// namespace, or a descriptor was missing), returns whether the pairing has ended. Costs a system
  /// call.
  [[nodiscard]] bool is_gone() const noexcept;
  /// True when a thread of the peer is inside an active section, and the peer is not gone.
  [[nodiscard]] bool may_be_inside() const noexcept;
  /// Ends the pairing of a peer that stays within a section: nothing waits for it any more. False
  /// when that was done before.
  bool give_up_waiting() noexcept;
  /// True when that was done, and the process may still run and write what it has mapped.
  [[nodiscard]] bool may_write_late() const noexcept { return gave_up_ && !watch_.exited(); }
  /// Calls `visit(lane)` for each lane that a thread of the peer, or of this process, has ever
  /// entered.
  template <class Visitor>
  static void for_each_lane(std::uint64_t used, Visitor&& visit) {
    for (used &= ~std::uint64_t{0} >> (64 - lane_count); used != 0; used &= used - 1)
      visit(static_cast<std::uint32_t>(std::countr_zero(used)));
  }
  [[nodiscard]] std::uint64_t their_lanes() const noexcept {
    return their_pair().lanes_used.load(std::memory_order_seq_cst);
  }
  [[nodiscard]] const shared_u64& their_lane(std::uint32_t lane) const noexcept {
    return their_pair().lanes[lane].word;
  }
  [[nodiscard]] const shared_u64& own_lane(std::uint32_t lane) const noexcept {
    return own_pair().lanes[lane].word;
  }

  std::uint32_t slot_;
  std::uint32_t own_slot_;
  route_policy policy_;
  peer_marks& marks_;
  std::atomic<peer_state> state_ = peer_state::connecting;
  std::atomic<peer_end> end_ = peer_end::none;
  std::atomic<bool> has_ring_ = false;
  std::atomic<bool> overdue_ = false;
  pid_t pid_ = 0;
  std::uint64_t generation_ = 0;
  std::uint32_t max_record_ = 0;
  copy_routes routes_;

  unique_fd socket_;  ///< messages and wake-ups; shut down at death, closed with the object
  process_watch watch_;
  peer_segment segment_;
  unique_fd own_pair_fd_;  ///< until it was sent
  mapping own_map_;
  mapping their_map_;
  mapping doorbell_;

  biased_lock send_lock_;
  ring_producer producer_;
  std::uint32_t full_spare_ = 0;  ///< what the reservation that failed wanted to be left
  sleeper_signal sleeper_;
  std::atomic<std::uint64_t> full_at_ = no_position;  ///< consumer's position when it was full
  std::mutex channel_mutex_;
  std::unique_ptr<std::unique_ptr<channel_slot[]>[]> channels_;  ///< by number; made when used
  std::uint32_t channels_held_ = 0;

  /// Held while a thread is in an active section of that lane.
  std::array<biased_lock, lane_count> lane_locks_;
  arena_cache arenas_;
  std::atomic<bool> cma_closed_ = false;
  std::atomic<bool> gave_up_ = false;  ///< no fence waits for it

  // Under the link's receive lock:
  ring_consumer consumer_;
  std::uint64_t room_reported_ = no_position;  ///< position that kept us from sleeping
  std::uint64_t kept_at_ = no_position;        ///< announced records when the oldest was kept

  // Under the link's service lock:
  struct queued_message {
    link_message message;
    unique_fd descriptor;
  };
  struct retired_mappings {
    std::vector<std::unique_ptr<arena_cache::node>> nodes;
    std::uint64_t used = 0;           ///< own lanes that had been entered
    std::uint64_t lanes[lane_count];  ///< their words when the nodes were retired
  };
  std::vector<queued_message> outbox_;
  std::vector<retired_mappings> retired_;
  std::chrono::steady_clock::time_point deadline_{};  ///< of pairing, then of the last records
  bool hello_waits_ = false;                          ///< it had no room in the socket
  bool closing_ = false;  ///< it exited; its last records are being received
  bool given_arenas_ = false;
};

}  // namespace verbena::softdev
