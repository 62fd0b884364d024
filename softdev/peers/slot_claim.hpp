// SPDX-License-Identifier: MIT
// A process's place among the processes of its user on this host: a number, held by the abstract
// socket that is bound to a name made of the user and the number. The kernel frees it at exit.
#pragma once

#include <cstdint>

#include "softdev/ipc/local_socket.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// A claimed slot and its listening socket. One thread at a time.
class slot_claim {
 public:
  /// Claims a free slot, beginning at a random one. Errors: `unavailable` when all are taken
  /// (the message has the users and pids of holders), otherwise the errno of socket(2), bind(2) or
  /// listen(2).
  static result<slot_claim> take();

  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  [[nodiscard]] int fd() const noexcept { return listener_.get(); }
  /// Accepts one waiting connection: empty when there is none now. Connections of other users
  /// are closed and skipped.
  [[nodiscard]] unique_fd accept() noexcept;
  /// Closes the socket; the slot is free when no copy of it is left.
  void close() noexcept { listener_.reset(); }

 private:
  slot_claim(unique_fd listener, std::uint32_t slot) noexcept
      : listener_(std::move(listener)), slot_(slot) {}

  unique_fd listener_;
  std::uint32_t slot_;
};

/// Connects to the process of that slot, as connect_to_name() does.
[[nodiscard]] socket_or_error connect_to_slot(std::uint32_t slot) noexcept;

/// The process that listens by the name of a slot. `pid` is 0 if it is outside our pid namespace.
struct slot_holder {
  int error = 0;  ///< of connect_to_slot(), then `pid` means nothing
  pid_t pid = 0;
};
[[nodiscard]] slot_holder find_slot_holder(std::uint32_t slot) noexcept;

}  // namespace verbena::softdev
