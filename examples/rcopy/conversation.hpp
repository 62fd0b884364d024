// SPDX-License-Identifier: MIT
// The stream to the peer while data crosses: silent, unless the peer gives up or ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/stream.hpp"

namespace rcopy {

/// The events that a transfer waits for besides its data. Does not own the stream. Threads: one
/// thread at a time.
struct conversation {
  verbena::bringup::stream& peer;
  std::chrono::milliseconds timeout;
  int interrupted_fd = -1;  ///< readable when the user wants to stop; -1: not interruptible

  [[nodiscard]] verbena::deadline patience() const { return verbena::deadline::after(timeout); }
};

/// Waits until `fd` has one of `events`. Errors: the peer gave up (its words), ended, or broke the
/// protocol; the user interrupted; nothing happened until `until`.
[[nodiscard]] verbena::result<void> wait_for(const conversation& with, int fd, short events,
                                             verbena::deadline until);

/// Why the data stopped with `symptom`: what the peer has said about it if it did so, or that it
/// ended; otherwise the symptom itself.
[[nodiscard]] verbena::error cause_of(verbena::error symptom, const conversation& with);

/// The peer's next blob. Errors: as wait_for() and stream::receive().
[[nodiscard]] verbena::result<std::vector<std::byte>> next_message(const conversation& with,
                                                                   verbena::deadline until);

/// Sends the reason of the failure to the peer and waits until the peer can read it. Blocks for a
/// second at most.
void refuse(const conversation& with, std::string_view reason);

}  // namespace rcopy
