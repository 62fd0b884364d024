// SPDX-License-Identifier: MIT
// The slot of a process: its number among the processes of its user on this host, which determines
// its range of queue pair numbers. Each slot is claimed in only one way, so that two processes that
// can meet never have the same slot:
//
//   public slots    by abstract socket names of the user and the slot, which every user can bind
//   private slots   by a lock in the user's table of names, which has a random name
//
// The kernel frees a slot at exit. docs/decisions/0020-names-that-other-users-cannot-take.md
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "softdev/ipc/local_socket.hpp"
#include "softdev/ipc/name_table.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Returns whether a slot is claimed by public names.
[[nodiscard]] bool is_public_slot(std::uint32_t slot) noexcept;

/// A claimed slot with its sockets. One thread at a time.
class slot_claim {
 public:
  /// Claims a free slot: a large one if possible, a public one unless other users hold public
  /// names. Errors: `unavailable` if all slots are taken (the message lists users and pids of
  /// holders), otherwise the errno of socket(2), bind(2) or listen(2).
  static result<slot_claim> take();

  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  [[nodiscard]] int fd() const noexcept { return sockets_.listener.get(); }
  /// Accepts one waiting connection; returns an empty descriptor if there is none. Closes and skips
  /// connections of other users.
  [[nodiscard]] unique_fd accept() noexcept;
  /// Announces the slot to is_group_user(). Returns 0 or an errno.
  [[nodiscard]] int announce_group_user() noexcept;
  /// Closes the sockets. The slot is free when all duplicates of them are closed, too.
  void close() noexcept;

 private:
  friend class slot_search;
  struct sockets {
    unique_fd listener;
    unique_fd groups;  ///< bound from the beginning, so that no other process can take its name
    unique_fd lock;    ///< of a private slot
  };
  slot_claim(sockets held, std::uint32_t slot) noexcept : sockets_(std::move(held)), slot_(slot) {}

  sockets sockets_;
  std::uint32_t slot_;
};

/// Connects to the process of that slot, as connect_to_name() does.
[[nodiscard]] socket_or_error connect_to_slot(std::uint32_t slot) noexcept;

/// The process that listens on the name of a slot. `pid` is 0 if it is outside our pid namespace.
struct slot_holder {
  int error = 0;  ///< of connect_to_slot(); if not 0, `pid` is not valid
  pid_t pid = 0;
};
[[nodiscard]] slot_holder find_slot_holder(std::uint32_t slot) noexcept;

/// Finds the slots whose processes have announced that they use multicast groups. One thread at a
/// time.
class group_user_search {
 public:
  /// Begins a search. Errors: an errno for exhausted descriptors or memory.
  [[nodiscard]] static result<group_user_search> begin();
  /// Returns whether the process in the slot uses multicast groups. If descriptors or memory are
  /// exhausted, sets `failed` to an errno; then the result is not valid.
  [[nodiscard]] bool is_group_user(std::uint32_t slot, int& failed) noexcept;

 private:
  explicit group_user_search(std::optional<name_table> table) noexcept : table_(std::move(table)) {}

  std::optional<name_table> table_;
  unique_fd probe_;  ///< not connected
};

}  // namespace verbena::softdev
