// SPDX-License-Identifier: MIT
// Eventfds: counters with which the threads of this process wake each other (eventfd(2)). They are
// never passed to other processes, which could make them block; wake_sockets.hpp wakes other
// processes.
#pragma once

#include <cstdint>

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Selects whether read(2) fails or waits if the count is 0.
enum class when_empty : std::uint8_t { fail, wait };
/// Creates an eventfd with the count 0, closed on exec. Eventfds for programs use `wait`. Errors:
/// the errno of eventfd(2).
[[nodiscard]] result<unique_fd> create_eventfd(when_empty reads = when_empty::fail);
/// Adds one to the count. One system call; does not block.
void signal_eventfd(int fd) noexcept;
/// Sets the count to 0. One system call; does not block if created with `fail`.
void drain_eventfd(int fd) noexcept;

}  // namespace verbena::softdev
