// SPDX-License-Identifier: MIT
// Messages with predictable bytes in both directions, over a channel whose peer does the same.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "tests/unit/channel/channel_side.hpp"
#include "tests/unit/channel/known_messages.hpp"

namespace verbena::test {

/// Both sides wait only for short times, so neither waits without a limit.
class message_traffic {
 public:
  message_traffic(message_channel_side& between, std::uint32_t seed)
      : over_(between.over), random_(seed) {}

  /// Sends and receives some messages; returns the failure of the channel, if any.
  [[nodiscard]] std::optional<message_failure> step() {
    const auto soon = deadline::after(std::chrono::milliseconds(1));
    switch (random_() % 6) {
      case 0:
        static_cast<void>(out_.send(over_));
        break;
      case 1:
        while (out_.send(over_)) {
        }
        break;
      case 2:
        if (auto message = over_.receive(soon)) take(*std::move(message));
        break;
      case 3:
        static_cast<void>(over_.drain(soon));
        break;
      case 4:
        kept_.clear();
        break;
      default:
        while (take(over_.try_receive())) {
        }
    }
    if (over_.failure() == nullptr) return std::nullopt;
    return *over_.failure();
  }
  /// Takes the received messages and destroys all messages.
  void end() {
    while (take(over_.try_receive())) {
    }
    kept_.clear();
  }

 private:
  static constexpr std::uint32_t seed_of_both = 7;
  static constexpr std::size_t kept_at_once = 6;

  bool take(std::optional<received_message> message) {
    if (!message) return false;
    in_.take(*message);
    kept_.push_back(std::move(*message));
    if (kept_.size() > kept_at_once) kept_.pop_front();
    return true;
  }

  message_channel& over_;
  std::mt19937 random_;
  known_stream out_{seed_of_both, std::numeric_limits<std::uint64_t>::max()};
  known_stream in_{seed_of_both, std::numeric_limits<std::uint64_t>::max()};
  std::deque<received_message> kept_;
};

}  // namespace verbena::test
