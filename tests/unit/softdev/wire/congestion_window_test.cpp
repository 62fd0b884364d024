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

constexpr time_ns least = 1'000'000;

/// A sender of which the peer has granted a larger window.
struct large_sender : sender {
  static constexpr std::uint32_t maximum = 1024;

  large_sender() { window.raise_maximum(maximum); }
  /// A round trip in which the window limits the sender, and `queued` packets wait in queues.
  [[nodiscard]] bool grow(std::uint32_t queued = 0) {
    round();
    window.note_limiting();
    const time_ns packets = window.packets();
    return window.note_round_trip(least * packets / (packets - queued), least, oldest);
  }
};

TEST(congestion_window, window_grows_slowly_to_the_granted_maximum) {
  large_sender one;
  std::uint32_t before = most;
  int rounds = 0;
  for (; one.window.packets() < large_sender::maximum; ++rounds) {
    ASSERT_LT(rounds, 100);
    EXPECT_FALSE(one.grow());
    EXPECT_LE(one.window.packets(), before + 32);
    before = one.window.packets();
  }
  EXPECT_EQ(rounds, 28);
}

TEST(congestion_window, window_without_a_grant_reports_that_its_maximum_limits_it) {
  sender one;
  one.window.note_limiting();
  EXPECT_TRUE(one.window.note_round_trip(least, least, one.oldest));
  EXPECT_FALSE(one.window.note_round_trip(least, least, one.oldest)) << "it did not limit";
  one.window.note_limiting();
  EXPECT_FALSE(one.window.note_round_trip(2 * least, least, one.oldest)) << "a queue grows";
  EXPECT_EQ(one.window.packets(), most);
}

TEST(congestion_window, window_shrinks_if_many_packets_wait_in_queues) {
  large_sender one;
  while (one.window.packets() < 512) EXPECT_FALSE(one.grow());
  EXPECT_FALSE(one.grow(40));
  EXPECT_EQ(one.window.packets(), 512U) << "neither few nor many";
  EXPECT_FALSE(one.grow(100));
  EXPECT_NEAR(one.window.packets(), 512 - 68, 2);
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(one.grow(110));
  EXPECT_EQ(one.window.packets(), most);
}

TEST(congestion_window, loss_halves_a_large_window_once_in_a_round_trip) {
  large_sender one;
  while (one.window.packets() < 600) EXPECT_FALSE(one.grow());
  const std::uint32_t before = one.window.packets();
  while (one.may_send()) one.next = psn_plus(one.next, 1);
  for (int i = 0; i < 3; ++i) one.window.note_loss(one.oldest, one.next);
  EXPECT_EQ(one.window.packets(), before / 2);
  EXPECT_FALSE(one.window.note_round_trip(least, least, one.oldest));
  EXPECT_EQ(one.window.packets(), before / 2) << "it does not grow before the loss is repaired";
  for (int i = 0; i < 10; ++i) {
    one.round();
    one.window.note_loss(one.oldest, one.next);
  }
  EXPECT_EQ(one.window.packets(), most);
}

TEST(congestion_window, base_window_does_not_change_after_a_loss) {
  sender one;
  one.window.note_loss(one.oldest, one.next);
  EXPECT_EQ(one.window.packets(), most);
}

TEST(congestion_window, large_window_grows_slowly_after_a_notification) {
  large_sender one;
  while (one.window.packets() < large_sender::maximum) EXPECT_FALSE(one.grow());
  while (one.may_send()) one.next = psn_plus(one.next, 1);
  one.notify();
  EXPECT_EQ(one.window.packets(), large_sender::maximum / 2);
  std::uint32_t before = one.window.packets();
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(one.grow());
    EXPECT_LE(one.window.packets(), before + 32);
    before = one.window.packets();
  }
  EXPECT_GT(before, large_sender::maximum / 2);
}

TEST(congestion_window, restart_returns_to_the_base_or_less) {
  large_sender one;
  while (one.window.packets() < 600) EXPECT_FALSE(one.grow());
  one.window.restart();
  EXPECT_EQ(one.window.packets(), most);
  one.notify();
  const std::uint32_t reduced = one.window.packets();
  EXPECT_LT(reduced, most);
  one.window.restart();
  EXPECT_EQ(one.window.packets(), reduced);
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
