// SPDX-License-Identifier: MIT
// Eventfds: counters by which the threads of this process wake each other (eventfd(2)). They are
// not given to other processes, which could make them block: see wake_sockets.hpp for that.
#pragma once

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Creates an eventfd with the count 0 that does not block and is closed on exec. Errors: the errno
/// of eventfd(2).
[[nodiscard]] result<unique_fd> create_eventfd();
/// Adds one to the count. One system call; does not block.
void signal_eventfd(int fd) noexcept;
/// Sets the count to 0. One system call; does not block.
void drain_eventfd(int fd) noexcept;

}  // namespace verbena::softdev
