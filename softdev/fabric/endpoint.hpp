// SPDX-License-Identifier: MIT
// The path to queue pairs of other processes of this host.
//
// A request is executed by this thread in the responder's name where it can be: a write, read or
// atomic on memory that is mapped here, or a write or read by process_vm_*; and only when the
// responder has executed every earlier request of the queue pair. Anything that is refused or not
// reachable so, and every send, goes through the ring to the responder, which alone refuses. Where
// nobody answers (UC), what was handled of the ring tells that earlier requests were executed.
//
// Of a ring, requests and the data of reads use one half at most; the other half is left to
// answers. An answer is no longer than its request, so the two rings between two processes are
// never both full, and both can always go on.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "softdev/core/active_set.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/remote_path.hpp"
#include "softdev/fabric/acknowledgements.hpp"
#include "softdev/fabric/direct_access.hpp"
#include "softdev/fabric/records.hpp"
#include "softdev/peers/link.hpp"

namespace verbena::softdev {

/// Numbers for diagnosis and for tests that want to know which route was taken. Snapshot;
/// approximate if several threads post.
struct fabric_endpoint_counters {
  std::uint64_t mapped = 0;   ///< executed on mapped memory
  std::uint64_t copied = 0;   ///< executed by process_vm_*
  std::uint64_t by_ring = 0;  ///< requests sent to the responder
  std::uint64_t dropped = 0;  ///< records that fit nothing here
};

/// Threads: thread-safe. `progress` and `after_service` may be called by any thread; one at a time
/// receives, the others return. Allocates only when a queue pair is connected and for the first
/// datagram to a process.
class fabric_endpoint final : public remote_path {
 public:
  /// Both outlive the path; the engine is told of it by engine::set_remote_path.
  fabric_endpoint(engine& home, link& neighbours);
  ~fabric_endpoint();
  fabric_endpoint(const fabric_endpoint&) = delete;
  fabric_endpoint& operator=(const fabric_endpoint&) = delete;

  /// Receives, answers, goes on with what waits for room. True when something was done. Never
  /// blocks; no system call unless a peer sleeps. Not from inside an access epoch.
  bool progress() noexcept;
  /// To be called when link::service reported events: pairings ended, peers died.
  void after_service() noexcept;
  /// True when `progress` should run again soon although nothing arrives: a record was kept because
  /// a lock was taken, or somebody was inside already.
  [[nodiscard]] bool restless() const noexcept { return restless_.load(std::memory_order_acquire); }

  [[nodiscard]] fabric_endpoint_counters counters() const noexcept;

  response submit(queue_pair& sender, const message& what, std::span<const segment> local,
                  bool earlier_done) noexcept override;
  void changed(queue_pair& which, bool gone) noexcept override;
  void fence() noexcept override;

 private:
  /// What the path remembers of a connected queue pair. The first part is under its send lock, the
  /// second under its receive lock; it is made and dropped under both.
  struct connection {
    std::shared_ptr<peer> to;  ///< of datagrams: the last destination's, or none

    bool looking = false;  ///< `to` was sought for the datagram with this number
    std::uint32_t looking_psn = 0;
    bool overdue = false;  ///< a request found `to` overdue: it is tried again when `to` is paired
    bool sending = false;  ///< a request was pushed in part
    std::uint32_t sending_psn = 0;
    std::uint64_t sent = 0;        ///< bytes of it
    std::uint64_t handled_at = 0;  ///< position in the ring after the last record
    bool reading = false;          ///< a read went by the ring; nothing may follow it yet
    std::uint32_t reading_psn = 0;
    std::uint32_t signalled = 0;  ///< the peer's arming that was answered by a signal
    std::uint32_t signalled_qpn = 0;
    std::vector<std::shared_ptr<peer>> peers;  ///< of SRD, instead of `to`

    /// Of a datagram to a multicast group that not every member's ring had room for: which
    /// processes have it.
    std::bitset<slot_count> told;
    bool telling = false;
    std::uint32_t telling_psn = 0;

    bool answering = false;      ///< a read of the peer is being answered
    std::uint64_t answered = 0;  ///< bytes of it
  };

  // Sending; fabric_endpoint.cpp
  [[nodiscard]] connection* connection_of(std::uint32_t qpn) const noexcept {
    return connections_[qpn % limits::queue_pair_indices].get();
  }
  response send_by_ring(queue_pair& sender, connection& by, const message& what,
                        std::span<const segment> local) noexcept;
  /// Whether records have all of a request; refused: memory is not accessible.
  enum class pushed : std::uint8_t { all, no_room, refused };
  [[nodiscard]] pushed push_parts(connection& by, const message& what,
                                  std::span<const segment> local, const std::byte*& bad) noexcept;
  void find_peer(const queue_pair& sender, connection& by, const message& what) noexcept;
  /// What becomes of a request to a process that is overdue, so that its own timeout counts.
  [[nodiscard]] static response from_overdue(const message& what) noexcept;
  /// And of one to a process that is dead, or counts as dead.
  [[nodiscard]] static response from_dead(const peer& to, const message& what) noexcept;
  static void signal_receiver(peer& to, connection& by, const message& what) noexcept;
  void wait_for_room(const queue_pair& which) noexcept;
  [[nodiscard]] queue_pair* own(std::uint32_t index) const noexcept {
    return home_.find(link_.slot() * limits::queue_pair_indices + index);
  }
  [[nodiscard]] static std::uint32_t index_of(const queue_pair& which) noexcept {
    return which.number() % limits::queue_pair_indices;
  }
  void run_blocked() noexcept;

  // Receiving; receive.cpp
  handled receive_one(peer& from, const ring_record& record) noexcept;
  handled receive_request(peer& from, std::span<const std::byte> bytes) noexcept;
  handled receive_fragment(peer& from, std::span<const std::byte> bytes) noexcept;
  handled receive_answer(peer& from, std::span<const std::byte> bytes) noexcept;
  handled receive_data(peer& from, std::span<const std::byte> bytes) noexcept;
  handled keep() noexcept;
  handled drop() noexcept;
  [[nodiscard]] static bool comes_from(const peer& from, std::uint32_t qpn) noexcept;
  void begin_request(queue_pair& target, peer& from, const message& what,
                     std::span<const std::byte> payload) noexcept;
  void go_on(queue_pair& target, peer& from, std::span<const std::byte> payload) noexcept;
  void begin_answering(queue_pair& target) noexcept;
  void go_on_answering(queue_pair& target) noexcept;
  [[nodiscard]] pushed push_data(queue_pair& target, connection& by) noexcept;
  void run_answering() noexcept;

  // SRD; parts.cpp
  response submit_delivery(queue_pair& sender, connection& by, const message& what,
                           std::span<const segment> local) noexcept;
  [[nodiscard]] peer& find_delivery_peer(const queue_pair& sender, connection& by,
                                         std::uint32_t qpn) noexcept;
  response push_delivery(queue_pair& sender, peer& to, const message& what,
                         std::span<const segment> local) noexcept;
  [[nodiscard]] pushed push_delivery_part(peer& to, const message& what,
                                          const records::request_part& part,
                                          std::span<const segment> local,
                                          const std::byte*& bad) noexcept;
  void receive_delivery(queue_pair& target, peer& from, const message& what,
                        std::span<const std::byte> payload) noexcept;
  void answer_delivery_read(queue_pair& target, peer& from, const message& what) noexcept;
  void tell_deliveries_lost(queue_pair& which, connection& mine) noexcept;

  // Multicast groups; group.cpp
  response submit_to_group(queue_pair& sender, connection& by, const message& what,
                           std::span<const segment> local) noexcept;
  enum class told : std::uint8_t { done, dropped, waits };
  [[nodiscard]] told tell_member(queue_pair& sender, peer& to, const message& what,
                                 std::span<const segment> local, const std::byte*& bad) noexcept;
  [[nodiscard]] pushed push_to_member(peer& to, const message& what, std::span<const segment> local,
                                      const std::byte*& bad) noexcept;
  handled receive_for_group(peer& from, message& what, std::span<const std::byte> bytes) noexcept;

  [[nodiscard]] static bool room_for_answer(peer& to) noexcept;
  void answer(peer& to, const message& what, const response& outcome) noexcept;
  void tell_lost() noexcept;
  [[nodiscard]] bool tell_lost(queue_pair& which) noexcept;

  /// Threads that count at the same time may lose an increment, which saves a locked instruction.
  static void count(std::atomic<std::uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  engine& home_;
  link& link_;
  std::unique_ptr<std::unique_ptr<connection>[]> connections_;
  active_set connected_;  ///< own queue pairs that have a connection
  active_set blocked_;    ///< own queue pairs that wait for room or for a pairing
  active_set answering_;  ///< own queue pairs with a read to answer
  std::atomic<bool> restless_{false};
  std::atomic<bool> some_lost_{false};

  direct_access direct_;
  acknowledgements acknowledgements_;
  std::atomic<std::uint64_t> by_ring_{0};
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace verbena::softdev
