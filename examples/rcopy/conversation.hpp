// SPDX-License-Identifier: MIT
// The bring-up stream during the transfer of data. A message or the end of the stream is an error
// of the peer, unless the data itself is sent on the stream.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/stream.hpp"

namespace rcopy {

/// The stream, timeout and interruption of one copy. Does not own the stream. Threads: one thread
/// at a time.
struct conversation {
  verbena::bringup::stream& peer;
  std::chrono::milliseconds timeout;
  int interrupted_fd = -1;  ///< readable after SIGINT or SIGTERM; -1: not interruptible

  [[nodiscard]] verbena::deadline timeout_from_now() const {
    return verbena::deadline::after(timeout);
  }
};

/// Waits until `fd` has one of `events`. Errors: the peer cancelled the copy (with its reason),
/// closed the stream or violated the protocol; the user interrupted the copy; `until` has expired.
[[nodiscard]] verbena::result<void> wait_for(const conversation& with, int fd, short events,
                                             verbena::deadline until);

/// Returns the cause of a failed transfer. If the peer sent a reason or closed the stream, returns
/// an error with this cause. Otherwise returns `symptom`. Blocks for a second at most.
[[nodiscard]] verbena::error cause_of(verbena::error symptom, const conversation& with);

/// Receives the peer's next blob. Errors: those of wait_for() and stream::receive().
[[nodiscard]] verbena::result<std::vector<std::byte>> next_message(const conversation& with,
                                                                   verbena::deadline until);

/// Sends the reason of the failure to the peer and waits until the peer can read it. Blocks for a
/// second at most.
void refuse(const conversation& with, std::string_view reason);

}  // namespace rcopy
