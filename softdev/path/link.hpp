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
//   process->receive([&](peer& from, const ring_record& r) { …; return verdict::consumed; }, 64);
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "softdev/path/arena.hpp"
#include "softdev/path/link_options.hpp"
#include "softdev/path/link_peer.hpp"
#include "softdev/path/link_wake.hpp"
#include "softdev/path/liveness.hpp"
#include "softdev/path/rendezvous_slot.hpp"
#include "softdev/path/segment.hpp"

namespace verbena::softdev {

/// What a receiver did with a record.
enum class verdict : std::uint8_t {
  consumed,
  keep,    ///< leave it at the head and go on with the next peer (back-pressure)
  broken,  ///< it is nonsense: count it and end the pairing
};

/// Numbers for diagnosis. Snapshot.
struct link_counters {
  std::uint64_t broken_records = 0;
  std::uint64_t broken_messages = 0;
  std::uint64_t refused_connections = 0;
  std::uint64_t peers_lost = 0;
};

enum class fence_outcome : std::uint8_t {
  clear,
  timed_out,  ///< some peer is still inside a section that began before the call
};

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
  [[nodiscard]] std::shared_ptr<peer> find(std::uint32_t slot) const;

  struct serviced {
    std::uint32_t events = 0;        ///< things that happened (a peer paired, died, a grant came)
    std::optional<time_point> next;  ///< when to call again at the latest, if nothing arrives
  };
  /// Accepts, pairs, answers peers, notices deaths, drops mappings. Never blocks; returns at once
  /// when another thread is in it. Do not call it from a receive handler.
  serviced service(time_point now);
  /// Readable when service() has something to do (an epoll descriptor).
  [[nodiscard]] int service_fd() const noexcept { return epoll_.get(); }
  /// True when service() should be called without waiting for service_fd. No system call.
  [[nodiscard]] bool service_due() const noexcept {
    return service_due_.load(std::memory_order_acquire);
  }

  // ---- Receiving ----

  /// Hands up to `budget` records to `handler(peer&, const ring_record&) -> verdict`, oldest first
  /// per peer. Returns how many were consumed; 0 at once when another thread receives. No system
  /// call unless a peer waits for room. The handler must not call service() or receive().
  template <class Handler>
  std::size_t receive(Handler&& handler, std::size_t budget);
  /// True when some peer announced records that were not consumed. Sequentially consistent: the
  /// last look before sleeping or after arming. False while another thread receives.
  [[nodiscard]] bool anything_published();

  // ---- Sleeping of the progress thread ----

  /// Readable when a peer woke us (an eventfd).
  [[nodiscard]] int wake_fd() const noexcept { return wake_.get(); }
  /// Publishes that the progress thread sleeps. False when there is something to receive: then do
  /// not sleep. One thread at a time.
  [[nodiscard]] bool announce_sleep();
  /// Publishes that it is awake, and resets wake_fd.
  void announce_awake();
  /// Makes wake_fd readable, from any thread of this process.
  void wake_self() noexcept;

  // ---- Completion channels ----

  [[nodiscard]] result<wake_channels::created> create_wake_channel() { return channels_.create(); }
  bool destroy_wake_channel(wake_channel_id id) { return channels_.destroy(id); }

  // ---- Fence ----

  /// Call after words were invalidated (withdraw_region, publish_queue_pair …): waits until no peer
  /// is inside an active section that began before. Dead peers do not count. Blocks until then or
  /// until the deadline; logs a peer that takes more than one second. Do not call it while holding
  /// a lock that receive handlers or posting threads need.
  [[nodiscard]] fence_outcome fence(deadline until);
  /// The same for the end of a region at `memory`: when a stopped peer is inside and the memory is
  /// shareable, its pages are replaced and all regions that lie there are corrected; ordinary
  /// memory is waited for without limit.
  void fence_memory(const void* memory);

  [[nodiscard]] link_counters counters() const noexcept;

  /// In the child after fork: closes all descriptors, touches nothing else. Async-signal-safe.
  /// Installed by pthread_atfork when the first link opens; public for programs that use clone.
  void abandon_after_fork() noexcept;

 private:
  struct hello_state;
  struct pending_socket;

  link(const link_options& options, slot_claim claim) noexcept;

  template <class Handler>
  std::size_t receive_from(peer& from, Handler& handler, std::size_t budget);
  void end_batch(peer& from);
  void collect_ready(std::array<std::uint64_t, slot_count / 64>& ready);

  // link_service.cpp
  void start_connections(time_point now, serviced& out);
  void accept_connections(time_point now, serviced& out);
  void read_pending(time_point now, serviced& out);
  void read_peer(peer& from, serviced& out);
  void handle_message(peer& from, received_message& got, serviced& out);
  void pair_with(std::shared_ptr<peer> other, received_message& hello, serviced& out);
  void expire(time_point now, serviced& out);
  void bury(const std::shared_ptr<peer>& dead, peer_end why);
  void tell_retired_arenas();
  void drop_retired_mappings();

  link_options options_;
  fork_guard fork_guard_;
  slot_claim claim_;
  std::uint64_t generation_ = 0;
  std::unique_ptr<public_segment> segment_;
  sealed_memory doorbell_;
  unique_fd wake_;
  unique_fd epoll_;
  arena_registry arenas_;
  wake_channels channels_;
  probe_place probe_;

  mutable std::mutex table_mutex_;  ///< leaf lock
  std::array<std::shared_ptr<peer>, slot_count> table_;

  std::mutex service_mutex_;
  std::atomic<bool> service_due_ = false;
  std::vector<std::unique_ptr<pending_socket>> pending_;

  std::mutex receive_mutex_;  ///< taken after service_mutex_
  std::vector<std::shared_ptr<peer>> receiving_;
  std::array<std::uint64_t, slot_count / 64> again_{};
  std::atomic<bool> scan_all_ = false;

  std::atomic<std::uint64_t> broken_records_ = 0;
  std::atomic<std::uint64_t> broken_messages_ = 0;
  std::atomic<std::uint64_t> refused_connections_ = 0;
  std::atomic<std::uint64_t> peers_lost_ = 0;
};

}  // namespace verbena::softdev
