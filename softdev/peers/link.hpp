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

#include <pthread.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "softdev/core/biased_lock.hpp"
#include "softdev/ipc/fork_guard.hpp"
#include "softdev/peers/link_options.hpp"
#include "softdev/peers/peer.hpp"
#include "softdev/peers/peer_table.hpp"
#include "softdev/peers/ring_receiver.hpp"
#include "softdev/peers/section_fence.hpp"
#include "softdev/peers/service_requests.hpp"
#include "softdev/peers/slot_claim.hpp"
#include "softdev/peers/wake_channels.hpp"
#include "softdev/shm/arena.hpp"
#include "softdev/shm/segment.hpp"
#include "verbena/base/assert.hpp"

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
  [[nodiscard]] bool usable() const noexcept { return fork_guard_.same_process(); }
  /// 0..1023: the top 10 bits of this process's queue pair numbers.
  [[nodiscard]] std::uint32_t slot() const noexcept { return claim_.slot(); }
  [[nodiscard]] const link_options& options() const noexcept { return options_; }

  /// This process's public words.
  [[nodiscard]] public_segment& segment() noexcept { return *segment_; }
  /// This process's shareable memory.
  [[nodiscard]] arena_registry& arenas() noexcept { return arenas_; }

  // ---- Peers ----

  /// The process in `slot`; begins to pair when it is new. Never blocks and makes no system call:
  /// the next service() does the work (service_due() is true until then). Precondition: slot is
  /// < 1024. Our own slot is refused: the peer is dead with nobody_there.
  [[nodiscard]] std::shared_ptr<peer> connect(std::uint32_t slot);
  /// The living or connecting peer in `slot`, if any.
  [[nodiscard]] std::shared_ptr<peer> find(std::uint32_t slot) const { return peers_.find(slot); }

  // ---- Multicast groups; link_groups.cpp ----

  /// Makes this process known, by a name, to all that use multicast groups from now on, and begins
  /// to pair with those that do: them. Of two such processes the later one finds the other, so
  /// that all are paired. About a thousand system calls; does not block. Errors: the errno of
  /// socket(2), bind(2) or listen(2).
  [[nodiscard]] result<std::vector<std::shared_ptr<peer>>> meet_group_users();
  /// Puts the paired processes that may have a queue pair in the group into `out`, as far as there
  /// is room; returns how many. No system call, no allocation.
  [[nodiscard]] std::size_t find_group(const gid_bytes& group,
                                       std::span<std::shared_ptr<peer>> out) const noexcept {
    return peers_.find_group(group, out);
  }

  struct serviced {
    std::uint32_t events = 0;        ///< things that happened (a peer paired, died, a grant came)
    std::optional<time_point> next;  ///< when to call again at the latest, if nothing arrives
  };
  /// Accepts, pairs, answers peers, notices deaths, drops mappings. Never blocks; returns at once
  /// when another thread is in it. Do not call it from a receive handler. When it reports events,
  /// call receive(): a process that exited becomes `dead` only after its last records were
  /// received (or kept for a second).
  serviced service(time_point now);
  /// Readable when service() has something to do (an epoll descriptor).
  [[nodiscard]] int service_fd() const noexcept { return epoll_.get(); }
  /// Makes service_due() true, e.g. after arenas().free(), so that peers drop their mappings soon.
  void request_service() noexcept { requests_.request(); }
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
  /// The right to receive, which one thread can have. Do not call service() while holding it.
  using receive_lock = ring_receiver::lock;
  [[nodiscard]] receive_lock try_lock_receive() noexcept { return receiver_->try_lock(); }
  /// As above, for a caller that holds the right.
  template <class Handler>
  std::size_t receive(const receive_lock& held, Handler&& handler, std::size_t budget) {
    return receiver_->receive(held, std::forward<Handler>(handler), budget);
  }
  /// True when some peer announced records that were neither consumed nor kept, or room came back
  /// in a ring that was full. Sequentially consistent: the last look before sleeping or after
  /// arming. Waits for a receive() in progress; looks at every peer, so not for each poll.
  [[nodiscard]] bool anything_published() { return receiver_->anything_published(); }

  // ---- Sleeping of the progress thread ----

  /// What peers signal while the progress thread sleeps.
  [[nodiscard]] wake_receiver& wakes() noexcept { return *wake_; }
  /// Publishes that the progress thread sleeps. False when there is something to receive: then do
  /// not sleep, and publish nothing. One thread at a time, as announce_awake.
  [[nodiscard]] bool announce_sleep();
  /// As above, without a look at what there is to receive. The caller looks afterwards.
  void announce_sleep_unseen() noexcept;
  /// Publishes that it is awake. A signal that was given meanwhile stays in wakes().
  void announce_awake() noexcept;

  // ---- Completion channels ----

  [[nodiscard]] result<wake_channels::created> create_wake_channel() { return channels_.create(); }
  bool destroy_wake_channel(wake_channel_id id) { return channels_.destroy(id); }

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
  [[nodiscard]] fence_outcome fence(deadline until) { return fence_->wait(until); }
  /// The same for the end of a region at `memory`: when a peer is inside that is stopped, or whose
  /// pairing was ended for it, and the memory is shareable, its pages are replaced and all regions
  /// that lie there are corrected. Such a peer, once continued, must find that its region
  /// changed (peer_segment::is_current) and do its access again by another route.
  void fence_memory(const void* memory) { fence_->wait_for_memory(memory); }

  [[nodiscard]] link_counters counters() const noexcept { return requests_.counters(); }

  /// In the child after fork: closes all descriptors, touches nothing else. Async-signal-safe.
  /// Installed by pthread_atfork when the first link opens; public for programs that use clone.
  void abandon_after_fork() noexcept;

 private:
  struct pending_socket;
  link(const link_options& options, slot_claim claim);
  result<void> set_up();

  // Service (under service_mutex_); link_service.cpp and link_pairing.cpp
  void start_connections(time_point now);
  void start_connection(const std::shared_ptr<peer>& to);
  void accept_connections(time_point now);
  void read_pending(pending_socket& from, time_point now);
  [[nodiscard]] std::shared_ptr<peer> make_peer(std::uint32_t other) const;
  void adopt(pending_socket& from, received_message& hello, time_point now);
  [[nodiscard]] bool has_too_many_links(pid_t pid, const peer& next) const;
  void lost_while_connecting(peer& from);
  void read_peer(const std::shared_ptr<peer>& from, time_point now);
  bool handle(peer& from, received_message& got);
  bool give_arena(peer& to, std::uint64_t arena);
  [[nodiscard]] bool prepare_pair(peer& with);
  [[nodiscard]] send_status send_hello(peer& to);
  void say_hello(const std::shared_ptr<peer>& to);
  bool answered(const std::shared_ptr<peer>& from, received_message& got);
  void finish_pairing(const std::shared_ptr<peer>& with, peer_end why);
  [[nodiscard]] peer_end pair_with(peer& with, received_message& hello);
  void watch_socket(peer& of, std::uint32_t events, int operation);
  void dispatch(std::uint64_t tag, time_point now);
  void expire(time_point now);
  void close_down(const std::shared_ptr<peer>& from, time_point now);
  void end_closing(time_point now);
  void stop_watching(peer& which);
  void ignore_wakes(const peer& of) noexcept;
  void bury_dead();
  void finish_hellos();
  void tell_retired_arenas();
  void drop_retired_mappings(peer& of);
  [[nodiscard]] std::optional<time_point> next_deadline(time_point now) const;

  link_options options_;
  fork_guard fork_guard_;
  slot_claim claim_;
  std::uint64_t generation_ = 0;
  std::unique_ptr<public_segment> segment_;
  sealed_memory doorbell_;
  std::unique_ptr<wake_receiver> wake_;
  unique_fd epoll_;
  arena_registry arenas_;
  wake_channels channels_;
  std::mutex groups_mutex_;
  unique_fd groups_name_;                       ///< held while the process uses multicast groups
  volatile std::uint64_t probe_words_[2] = {};  ///< read and written by peers that try their routes

  service_requests requests_;
  peer_table peers_;
  std::unique_ptr<ring_receiver> receiver_;
  std::unique_ptr<section_fence> fence_;

  std::mutex service_mutex_;
  std::atomic<bool> hellos_out_ = false;  ///< some peer has our hello, and we wait for its own
  std::vector<std::shared_ptr<peer>> connecting_;
  std::vector<std::shared_ptr<peer>> closing_;
  std::vector<std::unique_ptr<pending_socket>> pending_;
  std::uint32_t next_pending_ = 0;
  std::uint32_t events_ = 0;
  bool watch_departed_ = false;
  time_point next_full_scan_{};
};

}  // namespace verbena::softdev
