// SPDX-License-Identifier: MIT
// The path to queue pairs of other processes of this host.
//
// If possible, the posting thread executes a request in place of the responder: a write, read or
// atomic in memory that is mapped here, or a write or read by process_vm_*. It does so only after
// the responder has executed every earlier request of the queue pair. All other requests, including
// every send, go through the ring to the responder; only the responder refuses requests. UC has no
// answers: there, the position up to which the peer consumed the ring shows that earlier requests
// were executed. Long payloads in shareable memory do not enter the ring: the responder copies
// them.
//
// Requests and the data of reads use at most one half of a ring; the other half is left to answers.
// An answer is not longer than its request, so the two rings between two processes are never both
// full, and both processes can always continue.
#pragma once

#include <cstdint>
#include <span>

#include "softdev/core/remote_path.hpp"
#include "softdev/fabric/endpoint_state.hpp"
#include "softdev/fabric/group.hpp"
#include "softdev/fabric/receive.hpp"
#include "softdev/fabric/send_parts.hpp"
#include "softdev/fabric/send_ring.hpp"
#include "softdev/peers/slot_set.hpp"

namespace verbena::softdev {

/// Counters for diagnosis, and for tests that check which route was used. Snapshot; approximate if
/// several threads post.
struct fabric_endpoint_counters {
  std::uint64_t mapped = 0;        ///< executed on mapped memory
  std::uint64_t copied = 0;        ///< executed by process_vm_*
  std::uint64_t by_ring = 0;       ///< requests sent to the responder
  std::uint64_t by_reference = 0;  ///< of these, with the payload left in place
  std::uint64_t dropped = 0;       ///< records without effect, and answers without room
};

/// Threads: thread-safe. `progress` and `after_service` may be called by any thread; one at a time
/// receives, the others return. Allocates only when a queue pair is connected and for the first
/// datagram to a process.
class fabric_endpoint final : public remote_path {
 public:
  /// Both must outlive the endpoint. request_routes::set_remote() makes the engine use it.
  fabric_endpoint(engine& home, link& peer_link) : state_(home, peer_link) {}
  ~fabric_endpoint() = default;
  fabric_endpoint(const fabric_endpoint&) = delete;
  fabric_endpoint& operator=(const fabric_endpoint&) = delete;

  /// Receives records, answers them, and continues requests that wait for room. Returns true if it
  /// received records or can continue at once. Never blocks; no system call unless a peer sleeps.
  /// Do not call it inside an access epoch.
  bool progress() noexcept;
  /// Handles the changes of peers. Call it when link::service() reported events.
  void after_service() noexcept;
  /// Returns whether progress() should run again soon even if nothing arrives: a record was kept
  /// because a lock was held, or another thread was inside.
  [[nodiscard]] bool needs_progress() const noexcept {
    return state_.needs_progress.load(std::memory_order_acquire);
  }

  /// Returns whether progress() ended a batch although it could continue at once.
  [[nodiscard]] bool unfinished() const noexcept {
    return state_.unfinished.load(std::memory_order_acquire);
  }

  [[nodiscard]] fabric_endpoint_counters counters() const noexcept;

  response submit(queue_pair& sender, const message& what, std::span<const segment> local,
                  bool earlier_done) noexcept override;
  void end_run(queue_pair& sender) noexcept override;
  void disown_payloads(queue_pair& sender) noexcept override;
  void prepare(queue_pair& which, const queue_pair_attributes& next) override;
  void changed(queue_pair& which, bool gone) noexcept override;
  void fence() noexcept override;

 private:
  [[nodiscard]] response submit_to_paired(queue_pair& sender, connection& by, const message& what,
                                          std::span<const segment> local,
                                          bool earlier_done) noexcept;
  void find_peer(const queue_pair& sender, connection& by, const message& what) noexcept;
  void run_blocked(const link::receive_lock& held) noexcept;
  void run_waiting_for(std::uint32_t slot, const link::receive_lock& held) noexcept;
  void report_lost() noexcept;
  [[nodiscard]] bool report_lost(queue_pair& which) noexcept;

  endpoint_state state_;
  ring_sender ring_{state_};
  part_sender parts_{state_};
  group_sender groups_{state_};
  record_receiver receiver_{state_};
  slot_set changed_;  ///< processes that became paired, overdue or dead
  slot_set to_try_;   ///< processes whose waiting queue pairs must run
};

}  // namespace verbena::softdev
