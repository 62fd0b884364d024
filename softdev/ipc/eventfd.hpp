// SPDX-License-Identifier: MIT
// Eventfds: counters by which the threads of this process wake each other (eventfd(2)). They are
// not given to other processes, which could make them block: see wake_sockets.hpp for that.
#pragma once

#include <cstdint>

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// What read(2) of an eventfd with the count 0 does.
enum class when_empty : std::uint8_t { fail, wait };
/// Creates an eventfd with the count 0 that is closed on exec. Programs get one that waits. Errors:
/// the errno of eventfd(2).
[[nodiscard]] result<unique_fd> create_eventfd(when_empty reads = when_empty::fail);
/// Adds one to the count. One system call; does not block.
void signal_eventfd(int fd) noexcept;
/// Sets the count to 0. One system call; does not block.
void drain_eventfd(int fd) noexcept;

}  // namespace verbena::softdev
