// SPDX-License-Identifier: MIT
// The link of this process to the other processes of its user on this host. It finds them, pairs
// with them without blocking, transfers records, detects their exit and waits for the end of their
// accesses.
//
// A link has no thread. The thread that drives the device calls service() when service_fd() is
// readable or service_due() returns true, and receive() when it polls. Typical use:
//
//   auto process = link::open(options).value();
//   auto other = process->connect(slot);              // never blocks; see state()
//   process->service(now);                            // pairs, answers peers, detects exits
//   { auto lock = other->lock_sends();                // a record to the peer
//     auto record = other->try_reserve(type, bytes);
//     if (record.status == ring_status::ok) { …fill record.payload…; other->commit(); }
//     other->announce(); }
//   process->receive([&](peer& from, const ring_record& r) { …; return handled::consumed; }, 64);
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "softdev/ipc/fork_generation.hpp"
#include "softdev/peers/group_users.hpp"
#include "softdev/peers/link_options.hpp"
#include "softdev/peers/own_side.hpp"
#include "softdev/peers/peer.hpp"
#include "softdev/peers/peer_service.hpp"
#include "softdev/peers/peer_table.hpp"
#include "softdev/peers/progress_sleeper.hpp"
#include "softdev/peers/ring_receiver.hpp"
#include "softdev/peers/section_fence.hpp"
#include "softdev/peers/service_requests.hpp"
#include "softdev/peers/wake_channels.hpp"
#include "softdev/shm/arena.hpp"
#include "softdev/shm/segment.hpp"

namespace verbena::softdev {

/// The link of this process. Thread-safe; only `receive` is exclusive (a second caller returns 0 at
/// once). In a forked child, call only usable() and abandon_after_fork(), and do not destroy it.
class link {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Claims a slot and creates the public segment. Errors: `invalid_argument` if
  /// `options.ring_bytes` is out of range; `unavailable` if all slots are taken; otherwise the
  /// errno of the failed call. Allocates; does not block.
  static result<std::unique_ptr<link>> open(const link_options& options);
  ~link();
  link(const link&) = delete;
  link& operator=(const link&) = delete;

  /// Returns false in a child of fork. No system call.
  [[nodiscard]] bool usable() const noexcept { return is_current_generation(generation_); }
  /// Returns this process's slot, less than slot_count: a range of queue pair numbers
  /// (core/process_slot.hpp).
  [[nodiscard]] std::uint32_t slot() const noexcept { return own_->slot(); }
  [[nodiscard]] const link_options& options() const noexcept { return own_->options; }

  /// This process's public segment.
  [[nodiscard]] public_segment& segment() noexcept { return *own_->segment; }
  /// This process's shareable memory.
  [[nodiscard]] arena_registry& arenas() noexcept { return own_->arenas; }

  // ---- Peers ----

  /// Returns the peer in `slot`, and begins to pair if it is new. Never blocks and makes no system
  /// call: the next service() pairs, and service_due() returns true until then. Precondition:
  /// `slot` is less than slot_count. For this process's own slot, returns a dead peer with
  /// no_process.
  [[nodiscard]] std::shared_ptr<peer> connect(std::uint32_t slot);
  /// Returns the live peer in `slot`, or nullptr.
  [[nodiscard]] std::shared_ptr<peer> find(std::uint32_t slot) const { return peers_.find(slot); }

  // ---- Multicast groups ----

  /// Announces this process as a user of multicast groups, begins to pair with the other users and
  /// returns them. Of two such processes, the later one finds the other, so all of them pair. The
  /// first call makes about four thousand system calls, later calls a few for each present or
  /// former peer. Does not block. Errors: those of group_users::meet().
  [[nodiscard]] result<std::vector<std::shared_ptr<peer>>> meet_group_users();
  /// Copies the peers that take records and may have a queue pair in the group to `out`, at most
  /// out.size(). Returns their number. No system call, no allocation.
  [[nodiscard]] std::size_t find_group(const gid_bytes& group,
                                       std::span<std::shared_ptr<peer>> out) const noexcept {
    return peers_.find_group(group, out);
  }

  using serviced = peer_service::outcome;
  /// Accepts connections, pairs, answers peers, detects exits and drops mappings. Never blocks;
  /// returns at once if another thread runs it. Do not call it from a receive handler. If it
  /// reports events, call receive(): a process that exited becomes `dead` when its last records
  /// have been received, or after a second.
  serviced service(time_point now) { return service_.run(now); }
  /// Returns an epoll descriptor that is readable when service() has work.
  [[nodiscard]] int service_fd() const noexcept { return service_.fd(); }
  /// Returns whether to call service() without waiting for service_fd(). No system call.
  [[nodiscard]] bool service_due() const noexcept { return requests_.due(); }

  // ---- Receiving ----

  /// Passes up to `budget` records to `handler(peer&, const ring_record&) -> handled`, oldest first
  /// per peer. Returns the number of consumed records; 0 at once if another thread receives. No
  /// system call unless a peer waits for room. The handler must not call service() or receive().
  template <class Handler>
  std::size_t receive(Handler&& handler, std::size_t budget) {
    const receive_lock lock = try_lock_receive();
    return lock ? receive(lock, std::forward<Handler>(handler), budget) : 0;
  }
  /// Returns whether `slot` has a peer to which the ring may have room. Returns false while the
  /// ring was full and the peer has consumed nothing since. The caller holds the right to receive.
  [[nodiscard]] bool may_have_room(const ring_receiver::lock& /*held*/,
                                   std::uint32_t slot) const noexcept {
    return receiver_.may_have_room(slot);
  }
  /// Calls `visit(slot)` for each peer that became paired, overdue or dead since the last call. One
  /// thread at a time.
  template <class Visitor>
  void take_changed(Visitor&& visit) {
    requests_.take_changed(std::forward<Visitor>(visit));
  }
  /// The right to receive, which one thread at a time holds. Do not call service() while holding
  /// it.
  using receive_lock = ring_receiver::lock;
  [[nodiscard]] receive_lock try_lock_receive() noexcept { return receiver_.try_lock(); }
  /// Receives like the other overload, for a caller that holds the right to receive.
  template <class Handler>
  std::size_t receive(const receive_lock& held, Handler&& handler, std::size_t budget) {
    return receiver_.receive(held, std::forward<Handler>(handler), budget);
  }
  // ---- Sleeping and completion channels ----

  /// The sleep of the progress thread.
  [[nodiscard]] progress_sleeper& sleeper() noexcept { return sleeper_; }
  /// This process's completion channels that peers signal.
  [[nodiscard]] wake_channels& channels() noexcept { return own_->channels; }

  // ---- Injected faults ----

  /// Ends the pairing with each paired process, or only with process `pid`, as if it had exited.
  /// The peer observes an exit of this process. Both may pair again. Returns the number of
  /// pairings.
  std::size_t lose_peers(std::optional<pid_t> pid);

  // ---- Fence ----

  /// Waits until no peer is in an active section that began before the call. Call it after words
  /// were invalidated (withdraw_region, publish_queue_pair …). Processes that have exited do not
  /// count. Blocks no longer than `until`. Logs a peer that takes more than one second. Ends the
  /// pairing with a peer that takes more than link_options::section_timeout. Do not call it from a
  /// receive handler, inside an active section, or while holding a lock that receive handlers or
  /// posting threads need.
  [[nodiscard]] fence_outcome fence(deadline until) noexcept { return fence_.wait(until); }
  /// Waits like fence() when a region at `memory` is deregistered. If the memory is shareable,
  /// passes over stopped peers and peers whose pairing ended because they stayed inside: replaces
  /// the pages of the memory and updates all regions in them. When such a peer continues, it must
  /// detect that its region changed (peer_segment::is_current) and repeat the access by another
  /// route.
  void fence_memory(const void* memory) noexcept { fence_.wait_for_memory(memory); }

  [[nodiscard]] link_counters counters() const noexcept { return requests_.counters(); }

  /// Closes all descriptors in a child of fork, and changes nothing else. Async-signal-safe. A
  /// handler of pthread_atfork(3) calls it; it is public for programs that use clone(2).
  void abandon_after_fork() noexcept;

 private:
  explicit link(std::unique_ptr<own_side> own);

  const std::uint32_t generation_ = current_generation();
  std::unique_ptr<own_side> own_;
  group_users groups_;
  service_requests requests_;
  peer_table peers_;
  ring_receiver receiver_;
  progress_sleeper sleeper_;
  peer_service service_;
  section_fence fence_;
};

}  // namespace verbena::softdev
