// SPDX-License-Identifier: MIT
// Pairing of two processes. The process that needs the other one connects to its slot and sends a
// hello; the other process answers with a hello on the same connection. If both connect at once,
// the process with the lower slot closes the other's connection without an answer. A process whose
// connection ends before it received a hello connects again, until the pairing succeeds. A
// connection on which a hello was sent is never given up: the other side may accept it from its
// backlog at any time, and is paired from then on.
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

/// Reads messages of peers during pairing. Threads: one thread at a time, that of the service.
class pairing_observer {
 public:
  /// Reads the messages of a peer, paired or not, that may decide about a second connection of its
  /// process.
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

  /// Connects to new peers of the table, and to peers that were not reached before.
  void start(time_point now);
  /// Accepts the connections that wait at the listening socket.
  void accept(time_point now);
  /// Reads the hello from an accepted connection that is readable.
  void read_pending(std::uint32_t number, time_point now);
  /// Handles the answer of a peer to the hello. Returns false if the message is not an answer.
  [[nodiscard]] bool answered(const std::shared_ptr<peer>& from, received_message& got);
  /// Handles the end of the connection of a peer that is not paired.
  void lost(peer& from);
  /// Marks overdue peers, and closes accepted connections without a hello.
  void expire(time_point now);
  /// Returns when the next call of start() or expire() is due.
  [[nodiscard]] std::optional<time_point> next_deadline(time_point now) const;

  /// Returns whether some peer has our hello: it may access memory before its own hello was read.
  /// Thread-safe.
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
