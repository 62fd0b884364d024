// SPDX-License-Identifier: MIT
// Whether a program answers the messages of a connection at once.
#pragma once

#include <atomic>

#include "softdev/core/types.hpp"

namespace verbena::softdev::wire {

/// Predicts whether the program posts a request soon after it has received a message: it does if it
/// did so after the previous message. Threads: note_message() one thread at a time; note_request()
/// thread-safe.
class answer_pace {
 public:
  /// A quarter of the shortest time after which a requester of soft0 retransmits.
  static constexpr time_ns quick = 50'000;

  /// The program receives a message at `now`. Returns whether it is expected to answer soon.
  [[nodiscard]] bool note_message(time_ns now) noexcept {
    received_.store(now, std::memory_order_relaxed);
    return answers_.exchange(false, std::memory_order_relaxed);
  }
  /// True if note_request() must be called for the next request.
  [[nodiscard]] bool awaits_request() const noexcept {
    return received_.load(std::memory_order_relaxed) != never;
  }
  /// The program has posted a request at `now`.
  void note_request(time_ns now) noexcept {
    const time_ns at = received_.exchange(never, std::memory_order_relaxed);
    answers_.store(at != never && now - at <= quick, std::memory_order_relaxed);
  }

 private:
  std::atomic<time_ns> received_{never};  ///< the last message, if no request followed it
  std::atomic<bool> answers_{false};      ///< the last message was answered soon
};

}  // namespace verbena::softdev::wire
