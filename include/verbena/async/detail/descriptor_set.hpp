// SPDX-License-Identifier: MIT
// The file descriptors that operations wait for, registered with the epoll descriptor of an engine.
#pragma once

#include <cstdint>

#include "verbena/channel/detail/operation_table.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

using verbena::detail::operation_table;
using verbena::detail::queued_waiter;

/// A wait for events of a descriptor. Must not be moved while it is in a set.
struct descriptor_entry : queued_waiter {
  int fd = -1;
  std::uint32_t events = 0;  ///< events of epoll(7)
  bool is_in_set = false;
  bool is_ready = false;  ///< the event has occurred

  // Links of the set: the next wait for the same descriptor, and the first waits for other
  // descriptors.
  descriptor_entry* same = nullptr;
  descriptor_entry* following = nullptr;
  descriptor_entry* previous = nullptr;
};

/// Threads: one thread at a time. Never allocates.
class descriptor_set {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  /// Adds a wait. Returns 0 or the errno of epoll_ctl(2), which is EPERM for files that are always
  /// ready. Makes one or two system calls.
  [[nodiscard]] int add(int epoll, descriptor_entry& which) noexcept;
  /// Removes a wait. Precondition: the wait is in the set.
  void remove(int epoll, descriptor_entry& which) noexcept;
  /// Removes the waits whose events have occurred, and appends them to the completed operations.
  /// Does not block.
  void poll(int epoll, operation_table& table) noexcept;

 private:
  [[nodiscard]] descriptor_entry* find(int fd) const noexcept;
  void link(descriptor_entry& which) noexcept;
  void unlink(descriptor_entry& which) noexcept;
  // Registers the events of all waits for a descriptor. `which` is the first of these waits.
  [[nodiscard]] static int register_all(int epoll, descriptor_entry& which) noexcept;

  descriptor_entry* first_ = nullptr;
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
