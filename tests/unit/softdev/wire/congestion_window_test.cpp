// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/congestion_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>

#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr std::uint32_t most = 128;

/// A sender that fills its window.
struct sender {
  congestion_window window{most};
  std::uint32_t oldest = psn_mask - 500;  // PSNs wrap around
  std::uint32_t next = oldest;

  [[nodiscard]] bool may_send() const {
    return psn_distance(oldest, next) < static_cast<std::int32_t>(window.packets());
  }
  void acknowledge(std::uint32_t count) {
    oldest = psn_plus(oldest, count);
    window.acknowledge(oldest, next);
  }
  void notify() { window.notify(oldest, next); }
  /// Sends a full window, which is then acknowledged.
  void round() {
    while (may_send()) next = psn_plus(next, 1);
    acknowledge((next - oldest) & psn_mask);
  }
};

TEST(congestion_window, window_is_the_maximum_without_notifications) {
  sender one;
  for (int i = 0; i < 50; ++i) one.round();
  EXPECT_EQ(one.window.packets(), most);
}

TEST(congestion_window, notifications_of_one_round_trip_count_once) {
  sender one;
  while (one.may_send()) one.next = psn_plus(one.next, 1);
  for (int i = 0; i < 10; ++i) {
    one.notify();
    one.acknowledge(1);
  }
  EXPECT_EQ(one.window.packets(), most / 2) << "the first one removes half";
  one.acknowledge((one.next - one.oldest) & psn_mask);
  one.notify();
  EXPECT_EQ(one.window.packets(), most / 2) << "nothing that was sent since is acknowledged";
  while (one.may_send()) one.next = psn_plus(one.next, 1);
  one.acknowledge(1);
  one.notify();
  EXPECT_EQ(one.window.packets(), most / 4);
}

TEST(congestion_window, window_is_at_least_one_packet) {
  sender one;
  for (int i = 0; i < 100; ++i) {
    one.notify();
    one.round();
    EXPECT_GE(one.window.packets(), 1U);
  }
  EXPECT_EQ(one.window.packets(), 1U);
}

TEST(congestion_window, window_returns_to_the_maximum) {
  sender one;
  one.notify();
  one.round();
  one.round();
  int rounds = 0;
  for (; one.window.packets() < most; ++rounds) {
    ASSERT_LT(rounds, 50);
    one.round();
  }
  EXPECT_GE(rounds, 3) << "it halves the distance with each round trip";
  // A long time later, a CNP has the effect of a first CNP.
  for (int i = 0; i < 100; ++i) one.round();
  one.notify();
  EXPECT_EQ(one.window.packets(), most / 2);
}

TEST(congestion_window, notification_costs_less_when_they_are_rare) {
  sender one;
  one.notify();
  for (int i = 0; i < 30; ++i) one.round();
  const std::uint32_t before = one.window.packets();
  one.notify();
  EXPECT_GT(one.window.packets(), before * 3 / 4);
}

/// The queue of a link that sends one packet per step. It marks packets if the queue is longer than
/// a few packets.
class bottleneck {
 public:
  static constexpr std::size_t marking_from = 8;
  static constexpr std::size_t round_trip = 20;  ///< steps, with an empty queue

  explicit bottleneck(std::size_t senders) : senders_(senders) {}

  void step() {
    for (std::size_t i = 0; i < senders_; ++i) {
      sender& each = all_[(i + now_) % senders_];
      while (each.may_send()) {
        each.next = psn_plus(each.next, 1);
        queue_.push_back({(i + now_) % senders_, queue_.size() > marking_from, 0});
      }
    }
    longest_ = std::max(longest_, queue_.size());
    ++now_;
    if (!queue_.empty()) {
      queue_.front().arrives = now_ + round_trip;
      travelling_.push_back(queue_.front());
      queue_.pop_front();
      ++carried_;
    }
    while (!travelling_.empty() && travelling_.front().arrives <= now_) {
      sender& each = all_[travelling_.front().from];
      if (travelling_.front().marked) each.notify();
      each.acknowledge(1);
      ++delivered_[travelling_.front().from];
      travelling_.pop_front();
    }
  }
  void run(std::size_t steps) {
    longest_ = carried_ = 0;
    delivered_ = {};
    for (std::size_t i = 0; i < steps; ++i) step();
  }
  [[nodiscard]] std::size_t longest() const { return longest_; }
  [[nodiscard]] std::size_t carried() const { return carried_; }
  [[nodiscard]] std::size_t delivered(std::size_t sender) const { return delivered_[sender]; }

 private:
  struct travelling {
    std::size_t from;
    bool marked;
    std::size_t arrives;
  };
  std::size_t senders_;
  std::size_t now_ = 0;
  std::array<sender, 4> all_;
  std::deque<travelling> queue_;
  std::deque<travelling> travelling_;
  std::size_t longest_ = 0;
  std::size_t carried_ = 0;
  std::array<std::size_t, 4> delivered_{};
};

TEST(congestion_window, queue_stays_short_and_the_link_stays_busy) {
  bottleneck link(1);
  link.run(1000);
  EXPECT_GT(link.longest(), 100U) << "the first window fills the queue";
  constexpr std::size_t steps = 20'000;
  link.run(steps);
  EXPECT_LT(link.longest(), 40U);
  EXPECT_GT(link.carried(), steps * 9 / 10);
}

// parity: rocev2-104
TEST(congestion_window, senders_share_a_link) {
  bottleneck link(4);
  link.run(5'000);
  constexpr std::size_t steps = 100'000;
  link.run(steps);
  EXPECT_LT(link.longest(), 60U);
  EXPECT_GT(link.carried(), steps * 9 / 10);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(static_cast<double>(link.delivered(i)), steps / 4.0, steps / 10.0) << i;
}

}  // namespace
}  // namespace verbena::softdev::wire
