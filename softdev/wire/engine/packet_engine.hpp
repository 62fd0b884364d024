// SPDX-License-Identifier: MIT
// The path of RC, UC and UD requests as packets. Its inputs are packets and times; its outputs are
// packets and deadlines.
// It has no socket, clock or thread. The locks of a queue pair guard the state that the engine
// keeps for this queue pair. The engine does not block on these locks, because a program can hold
// one for a long time (an open batch).
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "softdev/core/active_set.hpp"
#include "softdev/core/deadline_queue.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/remote_path.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "softdev/wire/engine/reorder_queue.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

struct packet_connection;

/// When the ACK of a message is sent that the program probably answers (answer_pace).
enum class ack_time : std::uint8_t {
  at_once,  ///< in this call
  /// In the next call, or with the packets of the program's next request: together they cost little
  /// more than the request alone. The caller ensures that another call follows.
  later,
};

struct packet_engine_options {
  /// Between two engines with this option, only lost packets are retransmitted after the first
  /// loss of a connection (selective repeat).
  bool selective_repeat = true;
  /// With selective repeat: up to 1024 packets of a connection are in flight between two engines
  /// with this option, if the path has room for them.
  bool larger_windows = true;
};

/// Threads: thread-safe if the output is. Only one thread at a time may call `receive`,
/// `receive_datagram`, `transmit` and `expire`. Allocates when a queue pair becomes ready to
/// receive, and when more connections than ever before wait for a lost packet (reorder_pool).
class packet_engine final : public remote_path {
 public:
  /// `home` and `out` outlive the path. `home` uses the process slot. `home` has no queue pair that
  /// can receive when the path is constructed or destroyed.
  packet_engine(engine& home, std::uint32_t process_slot, packet_output& out,
                const packet_engine_options& options = {});
  ~packet_engine();
  packet_engine(const packet_engine&) = delete;
  packet_engine& operator=(const packet_engine&) = delete;

  /// Processes a packet of RC or UC. Preconditions: the ICRC is correct; the packet is from the
  /// host of the queue pair's peer. Drops the packet if there is no queue pair with its number,
  /// transport and partition. Returns false if another thread holds the required lock of the queue
  /// pair: the packet was not processed, and the caller tries again later.
  /// `marked`: a congested queue has marked the packet (CE). If such a packet has a payload, its
  /// sender gets a CNP, but at most one per queue pair in 50 us. A marked READ response also
  /// reduces the congestion window of the queue pair.
  [[nodiscard]] bool receive(const packet& what, bool marked = false) noexcept;
  /// Processes a packet of UD like `receive`. The packet can be from any host; `from` has its
  /// network headers. If the queue pair drops the packet, it counts the drop.
  [[nodiscard]] bool receive_datagram(const packet& what, const network_header& from) noexcept;
  /// Copies the numbers of the queue pairs of this process that are attached to a group. Returns
  /// their number.
  [[nodiscard]] std::size_t find_members(
      const network_address& group,
      std::span<std::uint32_t, limits::max_group_members> out) const noexcept;
  /// Sends the responses that are due, and the packets of requests that waited for room. Called
  /// after a batch of `receive`, and when the output has room again.
  void transmit(ack_time acks = ack_time::at_once) noexcept;
  /// True if there are ACKs that ack_time::later has postponed. Can remain true until the next call
  /// of put_postponed().
  [[nodiscard]] bool has_postponed() const noexcept { return !postponed_.empty(); }
  /// Sends these ACKs. Those of queue pairs whose locks are not available become work of `transmit`
  /// (wants_to_transmit). Any thread may call it, also one that holds the send lock of a queue
  /// pair.
  void put_postponed() noexcept;
  /// True if `transmit` has work to do when the output has room.
  [[nodiscard]] bool wants_to_transmit() const noexcept {
    return !answering_.empty() || !waiting_.empty();
  }
  /// Retransmits the packets whose deadline has passed. `now` is the current time.
  void expire(time_ns now) noexcept;
  /// Returns when `expire` is due; `never` if no packet waits for a response.
  [[nodiscard]] time_ns next_deadline() const noexcept { return timers_.earliest(); }

  // Overrides of remote_path.
  response submit(queue_pair& sender, const message& what, std::span<const segment> local,
                  bool earlier_done) noexcept override;
  void prepare(queue_pair& which, const queue_pair_attributes& next) override;
  void before_reset(queue_pair& which) noexcept override;
  void changed(queue_pair& which, bool gone) noexcept override;
  void fence() noexcept override {}

 private:
  [[nodiscard]] static packet_connection* connection_of(const queue_pair& which) noexcept;
  [[nodiscard]] response submit_datagram(queue_pair& sender, const message& what,
                                         std::span<const segment> local) noexcept;
  [[nodiscard]] bool receive_response(queue_pair& which, const packet& what, bool marked) noexcept;
  [[nodiscard]] bool receive_selective(queue_pair& which, const packet& what) noexcept;
  void receive_notification(queue_pair& which, const packet& what) noexcept;
  void send_cnp(const queue_pair& which, packet_connection& by) noexcept;
  void after_requests(queue_pair& which, packet_connection& by) noexcept;
  void answer(const queue_pair& which, packet_connection& by) noexcept;
  bool put_answers(std::uint32_t index) noexcept;
  bool run_waiting() noexcept;
  bool run_waiting(std::uint32_t index) noexcept;
  void expire(std::uint32_t index) noexcept;
  [[nodiscard]] queue_pair* own(std::uint32_t index) const noexcept;

  engine& home_;
  packet_output& out_;
  const std::uint32_t slot_;
  const packet_engine_options options_;
  reorder_pool reordered_;
  std::mutex creation_;  ///< guards connections_
  std::size_t connections_ = 0;
  deadline_queue timers_{limits::queue_pair_indices};
  active_set answering_;  ///< queue pairs with responses that are due
  active_set postponed_;  ///< queue pairs with an ACK that can be postponed
  active_set waiting_;    ///< queue pairs with requests that wait for room
  /// The index with which the next `transmit` begins in each set.
  struct {
    std::uint32_t answering = 0;
    std::uint32_t waiting = 0;
    bool requests_first = false;  ///< responses have taken all room
  } next_;
};

}  // namespace verbena::softdev::wire
