// SPDX-License-Identifier: MIT
// The socket to a peer, over which both sides pair, send descriptors and wake each other
// (pairing_message.hpp).
#pragma once

#include <cstddef>
#include <vector>

#include "softdev/peers/pairing_message.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, that of the service, unless a function states otherwise.
/// try_send() and wake() are thread-safe once the peer takes records.
class peer_messages {
 public:
  [[nodiscard]] bool connected() const noexcept { return bool(socket_); }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  /// Replaces the socket; an empty one disconnects.
  void connect(unique_fd socket) noexcept;
  void disconnect() noexcept { socket_.reset(); }
  /// Shuts the connection down; the destructor closes the socket. Thread-safe.
  void shut_down() noexcept;

  /// Sends a message. If others are queued or the socket is full, queues the message, which
  /// allocates. Returns false if too many messages are queued.
  [[nodiscard]] bool post(const link_message& message, unique_fd descriptor);
  /// Sends queued messages until the socket is full.
  void flush();
  [[nodiscard]] std::size_t queued() const noexcept { return outbox_.size(); }
  /// Returns whether messages are queued that flush() must try again although the socket may be
  /// writable all the time.
  [[nodiscard]] bool delayed() const noexcept { return delayed_ && !outbox_.empty(); }
  [[nodiscard]] received_message receive() noexcept { return receive_message(fd()); }

  /// Sends a message without descriptors if there is room.
  [[nodiscard]] bool try_send(const link_message& message) noexcept {
    return send_message(fd(), message, {}) == send_status::sent;
  }
  /// Wakes the peer's progress thread. One system call.
  void wake() noexcept { send_wake(fd()); }

  /// Closes the descriptors of queued messages, for a child of fork.
  void close_queued() noexcept;

 private:
  struct queued_message {
    link_message message;
    unique_fd descriptor;
  };

  [[nodiscard]] send_status send(const link_message& message, const unique_fd& descriptor) noexcept;
  [[nodiscard]] bool try_next(const link_message& message, const unique_fd& descriptor) noexcept;

  unique_fd socket_;
  std::vector<queued_message> outbox_;
  bool delayed_ = false;
};

}  // namespace verbena::softdev
