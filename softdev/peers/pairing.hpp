// SPDX-License-Identifier: MIT
// How two processes become peers. Whoever needs the other connects to its slot and says hello; the
// other answers hello on the same connection. When both connect at once, the connection that the
// lower slot made wins: its owner closes the other one unanswered, and whoever loses a connection
// before the hello tries again until it has been reached. A connection with a hello is never given
// up: the other side may take it from its backlog at any time and is paired from then on.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "softdev/peers/own_side.hpp"
#include "softdev/peers/pairing_message.hpp"
#include "softdev/peers/peer_table.hpp"
#include "softdev/peers/ring_receiver.hpp"
#include "softdev/peers/service_descriptors.hpp"
#include "softdev/peers/service_requests.hpp"

namespace verbena::softdev {

/// Reads what peers have sent while they pair. Threads: one thread at a time, that of the service.
class pairing_observer {
 public:
  /// The peer, paired or not, may have sent something that decides about a second connection of
  /// its process.
  virtual void read_peer(const std::shared_ptr<peer>& from,
                         std::chrono::steady_clock::time_point now) = 0;

 protected:
  ~pairing_observer() = default;
};

/// A part of a link's service. One thread at a time, that of the service, except where stated.
class pairing {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  struct options {
    own_side& own;
    peer_table& peers;
    ring_receiver& receiver;
    service_requests& requests;
    service_descriptors& watch;
    pairing_observer& observer;
  };
  explicit pairing(const options& how);
  pairing(const pairing&) = delete;
  pairing& operator=(const pairing&) = delete;
  ~pairing();

  /// Connects to the peers that the table has made, and to those that were not reached before.
  void start(time_point now);
  /// Accepts what waits at the listening socket.
  void accept(time_point now);
  /// An accepted connection is readable.
  void read_pending(std::uint32_t number, time_point now);
  /// A peer that is not paired answered the hello. False when the answer is not one.
  [[nodiscard]] bool answered(const std::shared_ptr<peer>& from, received_message& got);
  /// A peer that is not paired closed its connection.
  void lost(peer& from);
  /// Marks peers that take long, and drops connections that say nothing.
  void expire(time_point now);
  /// When the next call of start() or expire() is due.
  [[nodiscard]] std::optional<time_point> next_deadline(time_point now) const;

  /// Whether some peer has our hello, and may be at work before its own was read. Any thread.
  [[nodiscard]] bool has_hellos_out() const noexcept {
    return hellos_out_.load(std::memory_order_seq_cst);
  }
  void update_hellos_out() noexcept;
  /// The peers that are not paired.
  [[nodiscard]] const std::vector<std::shared_ptr<peer>>& connecting() const noexcept {
    return connecting_;
  }

 private:
  struct pending_socket;
  void start_one(const std::shared_ptr<peer>& to);
  void say_hello(const std::shared_ptr<peer>& to);
  void read_hello(pending_socket& from, time_point now);
  void adopt(pending_socket& from, received_message& hello, time_point now);
  [[nodiscard]] bool has_too_many_links(pid_t pid, const peer& next) const;
  [[nodiscard]] peer_end pair_with(peer& with, received_message& hello);
  void finish(const std::shared_ptr<peer>& with, peer_end why);

  const options how_;
  std::atomic<bool> hellos_out_ = false;
  std::vector<std::shared_ptr<peer>> connecting_;
  std::vector<std::unique_ptr<pending_socket>> pending_;
  std::uint32_t next_pending_ = 0;
};

}  // namespace verbena::softdev
