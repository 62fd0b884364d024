// SPDX-License-Identifier: MIT
// The connection to a peer, by which both sides pair, give each other descriptors and wake each
// other (pairing_message.hpp).
#pragma once

#include <cstddef>
#include <vector>

#include "softdev/peers/pairing_message.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, that of the service; try_send() and wake() thread-safe from the
/// time when the peer takes records.
class peer_messages {
 public:
  [[nodiscard]] bool connected() const noexcept { return bool(socket_); }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  /// Uses the socket from now on, or none.
  void connect(unique_fd socket) noexcept;
  void disconnect() noexcept { socket_.reset(); }
  /// Ends the connection, and closes it with the object. Thread-safe.
  void shut_down() noexcept;

  /// Sends a message; queues it if others wait or there is no room, which allocates. False when too
  /// many wait already.
  [[nodiscard]] bool post(const link_message& message, unique_fd descriptor);
  /// Sends what is queued as far as it goes.
  void flush();
  [[nodiscard]] std::size_t queued() const noexcept { return outbox_.size(); }
  [[nodiscard]] received_message receive() noexcept { return receive_message(fd()); }

  /// Sends a message without descriptors if there is room.
  [[nodiscard]] bool try_send(const link_message& message) noexcept {
    return send_message(fd(), message, {}) == send_status::sent;
  }
  /// Wakes the peer's progress thread. One system call.
  void wake() noexcept { send_wake(fd()); }

 private:
  struct queued_message {
    link_message message;
    unique_fd descriptor;
  };

  [[nodiscard]] send_status send(const link_message& message, const unique_fd& descriptor) noexcept;

  unique_fd socket_;
  std::vector<queued_message> outbox_;
};

}  // namespace verbena::softdev
