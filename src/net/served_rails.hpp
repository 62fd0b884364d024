// SPDX-License-Identifier: MIT
// The passive side of one connection over rails: the queue pairs by which a peer accesses memory of
// this process. A responder_thread calls it.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/net/rail_message.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/net/rail.hpp"
#include "verbena/net/rail_responder.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The rails whose ports are active.
using active_ports = std::bitset<max_rails>;

/// Threads: one thread at a time; is_connected() is thread-safe.
class served_rails {
 public:
  served_rails(rail_control control, std::span<const rail_port> rails,
               const rail_responder_options& options);

  /// Returns the descriptor, which is readable if the peer has sent a message.
  [[nodiscard]] int fd() const noexcept { return control_.fd(); }
  /// Serves the messages that have arrived. Can block for time_for_rail_messages if the peer does
  /// not read the answers.
  void serve();
  /// Reports changes of the ports to the peer.
  void report(const active_ports& now);
  /// Returns why the connection has ended; nullptr while it works.
  [[nodiscard]] const error* failure() const noexcept { return control_.failure(); }
  /// Moves the queue pairs to the error state, destroys them, and ends the stream.
  void end() noexcept;
  /// Returns whether end() was called.
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }

  /// Returns false if the peer can no longer access memory.
  [[nodiscard]] bool is_connected() const noexcept { return is_connected_.load(); }

 private:
  struct served_rail {
    rail_port port;
    std::optional<channel> queue = {};  // carries requests of the peer only
    std::uint32_t generation = 0;       // of `queue`
  };

  void serve(const rail_message& message);
  [[nodiscard]] bool end(std::uint32_t rail);
  void connect(served_rail& which, const rail_message& request);
  [[nodiscard]] result<verbena::endpoint> make(served_rail& which, const rail_message& request);

  rail_control control_;
  rail_responder_options options_;
  std::vector<served_rail> rails_;
  active_ports known_;  // the state that the peer knows
  bool has_ended_ = false;
  bool is_accessible_ = false;  // a queue pair could not be ended
  std::atomic<bool> is_connected_{true};
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
