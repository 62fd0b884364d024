// SPDX-License-Identifier: MIT
// The path of requests over RC, UC and UD as packets: packets and times in, packets and deadlines
// out.
// It has no socket, clock or thread. The locks of the queue pairs guard what it keeps of them; it
// waits for none of these locks, because a program can hold one for long (an open batch).
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "softdev/core/active_set.hpp"
#include "softdev/core/deadline_queue.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/remote_path.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

struct packet_connection;

/// Threads: thread-safe, as far as the output is. `receive`, `transmit` and `expire` are called by
/// one thread at a time. Allocates when a queue pair begins to receive, and at no other time.
class packet_engine final : public remote_path {
 public:
  /// Both outlive the path. `home` has the slot, and when the path begins and when it ends, no
  /// queue pair that receives.
  packet_engine(engine& home, std::uint32_t process_slot, packet_output& out);
  ~packet_engine();
  packet_engine(const packet_engine&) = delete;
  packet_engine& operator=(const packet_engine&) = delete;

  /// Takes a packet of RC or UC whose ICRC is correct, from the host of the queue pair's peer.
  /// Packets for no queue pair of their transport and partition are dropped. Returns false if
  /// another thread holds a lock of the queue pair: then nothing has happened, and the caller tries
  /// again. `marked`: a congested queue marked the packet (CE). If it has a payload, its sender
  /// gets a CNP, at most one per queue pair in 50 us; a marked response to a READ also has the
  /// queue pair request less.
  [[nodiscard]] bool receive(const packet& what, bool marked = false) noexcept;
  /// As `receive`, for a packet of UD, which can come from any host: `from` has its network
  /// headers. If the queue pair drops it, the queue pair counts it.
  [[nodiscard]] bool receive_datagram(const packet& what, const network_header& from) noexcept;
  /// Copies the numbers of the queue pairs of this process that are attached to a group. Returns
  /// how many there are.
  [[nodiscard]] std::size_t find_members(
      const network_address& group,
      std::span<std::uint32_t, limits::max_group_members> out) const noexcept;
  /// Puts the answers that are due, and the packets of requests that found no room. To be called
  /// after a batch of `receive`, and when the output has room again.
  void transmit() noexcept;
  /// True if `transmit` has something to do when the output has room.
  [[nodiscard]] bool wants_to_transmit() const noexcept {
    return !answering_.empty() || !waiting_.empty();
  }
  /// Repeats the packets whose time has come. `now` was read just before.
  void expire(time_ns now) noexcept;
  /// When `expire` is due; `never` if no packet waits for an answer.
  [[nodiscard]] time_ns next_deadline() const noexcept { return timers_.earliest(); }

  // As a path.
  response submit(queue_pair& sender, const message& what, std::span<const segment> local,
                  bool earlier_done) noexcept override;
  void prepare(queue_pair& which, const queue_pair_attributes& next) override;
  void changed(queue_pair& which, bool gone) noexcept override;
  void fence() noexcept override {}

 private:
  [[nodiscard]] static packet_connection* connection_of(const queue_pair& which) noexcept;
  [[nodiscard]] response submit_datagram(queue_pair& sender, const message& what,
                                         std::span<const segment> local) noexcept;
  [[nodiscard]] bool receive_response(queue_pair& which, const packet& what, bool marked) noexcept;
  void receive_notification(queue_pair& which, const packet& what) noexcept;
  void send_cnp(const queue_pair& which, packet_connection& by) noexcept;
  void after_requests(queue_pair& which, packet_connection& by) noexcept;
  void put_answers(std::uint32_t index) noexcept;
  void run_waiting(std::uint32_t index) noexcept;
  void expire(std::uint32_t index) noexcept;
  [[nodiscard]] queue_pair* own(std::uint32_t index) const noexcept;

  engine& home_;
  packet_output& out_;
  const std::uint32_t slot_;
  std::mutex creation_;  ///< guards the next one
  std::size_t connections_ = 0;
  deadline_queue timers_{limits::queue_pair_indices};
  active_set answering_;  ///< queue pairs with answers that are due
  active_set waiting_;    ///< queue pairs with requests that found no room
};

}  // namespace verbena::softdev::wire
