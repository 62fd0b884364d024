// SPDX-License-Identifier: MIT
// This process among the processes of its user on this host: finds them, pairs with them without
// blocking, moves records between them, notices their death and waits for their accesses to end.
//
// It has no thread of its own. Whoever drives the device calls `service` when service_fd() is
// readable or `service_due` says so, and `receive` when it polls. Typical use:
//
//   auto process = link::open(options).value();
//   auto other = process->connect(slot);              // never blocks; state() tells
//   process->service(now);                            // drives pairing, grants, deaths
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

/// This process. Thread-safe; only `receive` is exclusive (a second caller returns 0 at once).
/// In a forked child nothing but usable() may be called; the child never destroys it.
class link {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Claims a slot and creates the public segment. Errors: `unavailable` when all slots are taken,
  /// otherwise the errno of the failed call. Allocates; does not block.
  static result<std::unique_ptr<link>> open(const link_options& options);
  ~link();
  link(const link&) = delete;
  link& operator=(const link&) = delete;

  /// False in a child of fork. No system call.
  [[nodiscard]] bool usable() const noexcept { return is_current_generation(generation_); }
  /// 0..1023: the top 10 bits of this process's queue pair numbers.
  [[nodiscard]] std::uint32_t slot() const noexcept { return own_->slot(); }
  [[nodiscard]] const link_options& options() const noexcept { return own_->options; }

  /// This process's public words.
  [[nodiscard]] public_segment& segment() noexcept { return *own_->segment; }
  /// This process's shareable memory.
  [[nodiscard]] arena_registry& arenas() noexcept { return own_->arenas; }

  // ---- Peers ----

  /// The process in `slot`; begins to pair when it is new. Never blocks and makes no system call:
  /// the next service() does the work (service_due() is true until then). Precondition: slot is
  /// < slot_count. Our own slot is refused: the peer is dead with nobody_there.
  [[nodiscard]] std::shared_ptr<peer> connect(std::uint32_t slot);
  /// The living or connecting peer in `slot`, if any.
  [[nodiscard]] std::shared_ptr<peer> find(std::uint32_t slot) const { return peers_.find(slot); }

  // ---- Multicast groups ----

  /// Makes this process known, by a name, to all that use multicast groups from now on, and begins
  /// to pair with those that do: them. Of two such processes the later one finds the other, so
  /// that all are paired. The first call makes about four thousand system calls, later calls some
  /// for each process that is or was a peer. Does not block. Errors: those of group_users::meet().
  [[nodiscard]] result<std::vector<std::shared_ptr<peer>>> meet_group_users();
  /// Puts the paired processes that may have a queue pair in the group into `out`, as far as there
  /// is room; returns how many. No system call, no allocation.
  [[nodiscard]] std::size_t find_group(const gid_bytes& group,
                                       std::span<std::shared_ptr<peer>> out) const noexcept {
    return peers_.find_group(group, out);
  }

  using serviced = peer_service::outcome;
  /// Accepts, pairs, answers peers, notices deaths, drops mappings. Never blocks; returns at once
  /// when another thread is in it. Do not call it from a receive handler. When it reports events,
  /// call receive(): a process that exited becomes `dead` only after its last records were
  /// received (or kept for a second).
  serviced service(time_point now) { return service_.run(now); }
  /// Readable when service() has something to do (an epoll descriptor).
  [[nodiscard]] int service_fd() const noexcept { return service_.fd(); }
  /// True when service() should be called without waiting for service_fd. No system call.
  [[nodiscard]] bool service_due() const noexcept { return requests_.due(); }

  // ---- Receiving ----

  /// Hands up to `budget` records to `handler(peer&, const ring_record&) -> handled`, oldest first
  /// per peer. Returns how many were consumed; 0 at once when another thread receives. No system
  /// call unless a peer waits for room. The handler must not call service() or receive().
  template <class Handler>
  std::size_t receive(Handler&& handler, std::size_t budget) {
    const receive_lock lock = try_lock_receive();
    return lock ? receive(lock, std::forward<Handler>(handler), budget) : 0;
  }
  /// Whether the ring to the process in `slot` may have room: not as long as it was full and the
  /// process consumed nothing. The caller has the right to receive.
  [[nodiscard]] bool may_have_room(const ring_receiver::lock& /*held*/,
                                   std::uint32_t slot) const noexcept {
    return receiver_.may_have_room(slot);
  }
  /// Calls `visit(slot)` for each process that became a peer, overdue or dead since the last call.
  /// One thread at a time.
  template <class Visitor>
  void take_changed(Visitor&& visit) {
    requests_.take_changed(std::forward<Visitor>(visit));
  }
  /// The right to receive, which one thread can have. Do not call service() while holding it.
  using receive_lock = ring_receiver::lock;
  [[nodiscard]] receive_lock try_lock_receive() noexcept { return receiver_.try_lock(); }
  /// As above, for a caller that holds the right.
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

  /// Ends the pairing with each paired process, or with the one of this pid, as if it had exited.
  /// The peer sees the same of this process. Both may pair again. Returns the number of pairings.
  std::size_t lose_peers(std::optional<pid_t> pid);

  // ---- Fence ----

  /// Call after words were invalidated (withdraw_region, publish_queue_pair …): waits until no peer
  /// is inside an active section that began before. Dead peers do not count. Blocks until then or
  /// until the deadline; logs a peer that takes more than one second, and ends the pairing with a
  /// peer that takes more than link_options::section_timeout. Do not call it while holding
  /// a lock that receive handlers or posting threads need, nor from a receive handler, nor inside
  /// an active section.
  [[nodiscard]] fence_outcome fence(deadline until) noexcept { return fence_.wait(until); }
  /// The same for the end of a region at `memory`: when a peer is inside that is stopped, or whose
  /// pairing was ended for it, and the memory is shareable, its pages are replaced and all regions
  /// that lie there are corrected. Such a peer, once continued, must find that its region
  /// changed (peer_segment::is_current) and do its access again by another route.
  void fence_memory(const void* memory) noexcept { fence_.wait_for_memory(memory); }

  [[nodiscard]] link_counters counters() const noexcept { return requests_.counters(); }

  /// In the child after fork: closes all descriptors, touches nothing else. Async-signal-safe.
  /// Installed by pthread_atfork when the first link opens; public for programs that use clone.
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
