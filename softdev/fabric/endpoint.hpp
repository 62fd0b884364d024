// SPDX-License-Identifier: MIT
// The path to queue pairs of other processes of this host.
//
// A request is executed by this thread in the responder's name where it can be: a write, read or
// atomic on memory that is mapped here, or a write or read by process_vm_*; and only when the
// responder has executed every earlier request of the queue pair. Anything that is refused or not
// reachable so, and every send, goes through the ring to the responder, which alone refuses. Where
// nobody answers (UC), what was handled of the ring tells that earlier requests were executed.
// Long payloads in shareable memory do not enter the ring: the responder copies them.
//
// Of a ring, requests and the data of reads use one half at most; the other half is left to
// answers. An answer is no longer than its request, so the two rings between two processes are
// never both full, and both can always go on.
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

/// Numbers for diagnosis and for tests that want to know which route was taken. Snapshot;
/// approximate if several threads post.
struct fabric_endpoint_counters {
  std::uint64_t mapped = 0;        ///< executed on mapped memory
  std::uint64_t copied = 0;        ///< executed by process_vm_*
  std::uint64_t by_ring = 0;       ///< requests sent to the responder
  std::uint64_t by_reference = 0;  ///< of these, with the payload left in place
  std::uint64_t dropped = 0;       ///< records that fit nothing here
};

/// Threads: thread-safe. `progress` and `after_service` may be called by any thread; one at a time
/// receives, the others return. Allocates only when a queue pair is connected and for the first
/// datagram to a process.
class fabric_endpoint final : public remote_path {
 public:
  /// Both outlive the path; the engine is told of it by request_routes::set_remote.
  fabric_endpoint(engine& home, link& neighbours) : state_(home, neighbours) {}
  ~fabric_endpoint() = default;
  fabric_endpoint(const fabric_endpoint&) = delete;
  fabric_endpoint& operator=(const fabric_endpoint&) = delete;

  /// Receives, answers, goes on with what waits for room. True when something was done. Never
  /// blocks; no system call unless a peer sleeps. Not from inside an access epoch.
  bool progress() noexcept;
  /// To be called when link::service reported events: pairings ended, peers died.
  void after_service() noexcept;
  /// True when `progress` should run again soon although nothing arrives: a record was kept because
  /// a lock was taken, or somebody was inside already.
  [[nodiscard]] bool restless() const noexcept {
    return state_.restless.load(std::memory_order_acquire);
  }

  /// True when `progress` ended a batch although it could go on at once.
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
  void tell_lost() noexcept;
  [[nodiscard]] bool tell_lost(queue_pair& which) noexcept;

  endpoint_state state_;
  ring_sender ring_{state_};
  part_sender parts_{state_};
  group_sender groups_{state_};
  record_receiver receiver_{state_};
  slot_set changed_;  ///< processes that were paired, overdue or ended
  slot_set to_try_;   ///< processes whose waiting queue pairs are to run
};

}  // namespace verbena::softdev
