// SPDX-License-Identifier: MIT
// Messages with predictable bytes, and streams of such messages.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "verbena/channel/message_channel.hpp"
#include "verbena/channel/message_failure.hpp"
#include "verbena/memory/buffer_pool.hpp"

namespace verbena::test {

/// The length and the bytes of message `number` of a stream.
class known_message {
 public:
  known_message(std::uint32_t seed, std::uint64_t number, std::uint32_t longest)
      : state_(seed * 0x9e3779b97f4a7c15U + number * 0xbf58476d1ce4e5b9U + 1) {
    bytes_.resize(next() % (longest + 1U));
    for (std::byte& each : bytes_) each = static_cast<std::byte>(next() >> 24U);
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::uint64_t next() {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_;
  }
  std::uint64_t state_;
  std::vector<std::byte> bytes_;
};

/// One direction of a test: sends predictable messages and checks the received ones.
class known_stream {
 public:
  known_stream(std::uint32_t seed, std::uint64_t count) : seed_(seed), count_(count) {}

  [[nodiscard]] bool all_sent() const { return sent_ == count_; }
  [[nodiscard]] bool all_arrived() const { return arrived_ == count_; }
  [[nodiscard]] std::uint64_t arrived() const { return arrived_; }

  /// Tries to send the next message, in one of the two ways; returns the result.
  send_result send(message_channel& by) {
    const known_message next(seed_, sent_ + 1, by.message_bytes());
    send_result outcome = send_result::refuse(send_refusal::no_buffer, 0);
    if (sent_ % 3 == 0) {
      if (auto memory = by.take_buffer()) {
        std::ranges::copy(next.bytes(), memory->bytes().begin());
        outcome = by.try_send(std::move(*memory), {.length = next.bytes().size()});
      }
    } else {
      outcome = by.try_send(next.bytes());
    }
    if (outcome) {
      ++sent_;
      EXPECT_EQ(outcome.number(), sent_);
    }
    return outcome;
  }
  /// Checks a received message.
  void take(const received_message& message) {
    ++arrived_;
    EXPECT_EQ(message.number(), arrived_);
    const known_message expected(seed_, arrived_, 256);
    EXPECT_EQ(message.length(), expected.bytes().size());
    EXPECT_TRUE(std::ranges::equal(message.bytes(), expected.bytes())) << arrived_;
  }

 private:
  std::uint32_t seed_;
  std::uint64_t count_;
  std::uint64_t sent_ = 0;
  std::uint64_t arrived_ = 0;
};

}  // namespace verbena::test
