// SPDX-License-Identifier: MIT
// Whether a program answers the messages of a connection at once.
#pragma once

#include <atomic>
#include <cstdint>

#include "softdev/core/types.hpp"
#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {

/// Predicts whether the program posts a request soon after it has received a message: it does if it
/// did so after the previous message. Threads: note_message() and is_awaited() each one thread at a
/// time; note_request() thread-safe.
class answer_pace {
 public:
  /// A quarter of the shortest time after which a requester of soft0 retransmits.
  static constexpr time_ns quick = 50'000;

  /// The program receives a message at `now`. Returns whether it is expected to answer soon.
  [[nodiscard]] bool note_message(time_ns now) noexcept {
    received_.store(now, std::memory_order_relaxed);
    return answers_.exchange(false, std::memory_order_relaxed);
  }
  /// The queue pair submits the request with this sequence number. Returns true if note_request()
  /// must be called: the request is the first one since the last message. A request that is
  /// submitted again was posted before the message.
  [[nodiscard]] bool is_awaited(std::uint32_t number) noexcept {
    const bool is_new = newest_ == none || psn_distance(newest_, number) > 0;
    if (is_new) newest_ = number;
    return is_new && received_.load(std::memory_order_relaxed) != never;
  }
  /// The program has posted a request at `now`.
  void note_request(time_ns now) noexcept {
    const time_ns at = received_.exchange(never, std::memory_order_relaxed);
    answers_.store(at != never && now - at <= quick, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t none = psn_mask + 1;

  std::atomic<time_ns> received_{never};  ///< the last message, if no request followed it
  std::atomic<bool> answers_{false};      ///< the last message was answered soon
  std::uint32_t newest_ = none;           ///< the last request that was submitted
};

}  // namespace verbena::softdev::wire
