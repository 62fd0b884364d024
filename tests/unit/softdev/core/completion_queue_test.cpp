// SPDX-License-Identifier: MIT
#include "softdev/core/completion_queue.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::softdev {
namespace {

struct completions : ::testing::Test, completion_observer {
  completion_queue make(std::uint32_t capacity) {
    return completion_queue({.capacity = capacity, .observer = this});
  }
  void count_armed(completion_queue&, bool armed) noexcept override {
    armed_queues += armed ? 1 : -1;
  }
  void event(completion_queue& queue) override {
    ++events;
    if (arms_again) queue.arm(notify::any);
  }
  void delayed(completion_queue&, time_ns when) override {
    ++delays;
    due = when;
  }
  void overrun(completion_queue&) override { ++overruns; }
  bool push(completion_queue& queue, std::uint64_t id, bool solicited = false,
            completion_status status = completion_status::success) {
    return queue.push({.wr_id = id, .status = status}, {&released, id + 1}, solicited);
  }
  int events = 0;
  int armed_queues = 0;
  bool arms_again = false;  ///< as a program that arms before the observer has done its work
  int overruns = 0;
  int delays = 0;
  time_ns due = 0;
  std::atomic<std::uint64_t> released{0};
};

// parity: semantics-92
TEST_F(completions, poll_returns_completions_in_order_across_wraparound) {
  completion_queue queue = make(5);
  std::uint64_t next = 0;
  for (std::uint64_t id = 0; id < 40;) {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(push(queue, id++));
    completion out[3];
    while (const std::size_t count = queue.poll(out))
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(out[i].wr_id, next++);
    EXPECT_EQ(released.load(), next);
  }
  EXPECT_EQ(next, 40U);
  EXPECT_TRUE(queue.empty());
}

TEST_F(completions, overrun_drops_newest_completion_and_reports_once) {
  completion_queue queue = make(2);
  EXPECT_TRUE(push(queue, 0));
  EXPECT_TRUE(push(queue, 1));
  EXPECT_FALSE(queue.overrun());
  EXPECT_FALSE(push(queue, 2));
  EXPECT_FALSE(push(queue, 3));
  EXPECT_TRUE(queue.overrun());
  EXPECT_EQ(overruns, 1);
  completion out[4];
  EXPECT_EQ(queue.poll(out), 2U);
  EXPECT_EQ(out[1].wr_id, 1U);
}

time_ns moderation_clock() { return 1000; }

TEST_F(completions, moderated_event_waits_for_the_number_of_completions) {
  completion_queue queue = make(64);
  queue.moderate({.completions = 3}, &moderation_clock);
  for (int round = 1; round <= 3; ++round) {
    queue.arm(notify::any);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(push(queue, 1));
    EXPECT_EQ(events, round - 1);
    EXPECT_EQ(queue.armed(), notify::any);
    EXPECT_TRUE(push(queue, 2));
    EXPECT_EQ(events, round);
    EXPECT_EQ(queue.armed(), notify::none);
    EXPECT_TRUE(push(queue, 3)) << "not armed: counts for no event";
  }
  EXPECT_EQ(delays, 6);
  EXPECT_EQ(due, never) << "there is no period";
}

TEST_F(completions, moderated_event_is_raised_once_at_the_end_of_its_period) {
  completion_queue queue = make(64);
  queue.moderate({.completions = 3, .period = 50}, &moderation_clock);
  queue.arm(notify::solicited);
  EXPECT_TRUE(push(queue, 1)) << "not solicited: counts for no event";
  queue.end_delay();
  EXPECT_EQ(events + delays, 0);
  EXPECT_TRUE(push(queue, 2, true));
  EXPECT_EQ(due, 1050U);
  queue.end_delay();
  EXPECT_EQ(events, 1);
  queue.end_delay();
  EXPECT_EQ(events, 1);
  queue.arm(notify::any);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(push(queue, 3));
  EXPECT_EQ(events, 1) << "an event resets the count";
}

TEST_F(completions, change_of_moderation_raises_the_event_that_waits) {
  completion_queue queue = make(64);
  queue.moderate({.completions = 3}, &moderation_clock);
  queue.arm(notify::any);
  EXPECT_TRUE(push(queue, 1));
  queue.moderate({}, &moderation_clock);
  EXPECT_EQ(events, 1);
  queue.arm(notify::any);
  EXPECT_TRUE(push(queue, 2));
  EXPECT_EQ(events, 2);
}

TEST_F(completions, resize_keeps_completion_order) {
  completion_queue queue = make(4);
  for (std::uint64_t id = 0; id < 4; ++id) EXPECT_TRUE(push(queue, id));
  completion out[8];
  EXPECT_EQ(queue.poll({out, 3}), 3U);
  for (std::uint64_t id = 4; id < 6; ++id) EXPECT_TRUE(push(queue, id));
  // The queue contains three completions, which wrap around the end of the ring.
  EXPECT_FALSE(queue.resize(2));
  EXPECT_TRUE(queue.resize(3));
  EXPECT_FALSE(queue.overrun());
  EXPECT_TRUE(queue.resize(6));
  for (std::uint64_t id = 6; id < 9; ++id) EXPECT_TRUE(push(queue, id));
  EXPECT_EQ(queue.poll(out), 6U);
  for (std::uint64_t id = 3; id < 9; ++id) EXPECT_EQ(out[id - 3].wr_id, id);
  EXPECT_EQ(released.load(), 9U);
}

TEST_F(completions, reset_of_work_queue_removes_its_completions) {
  completion_queue queue = make(5);
  std::atomic<std::uint64_t> other{0};
  completion out[5];
  for (std::uint64_t id = 0; id < 3; ++id) EXPECT_TRUE(push(queue, id));
  EXPECT_EQ(queue.poll(out), 3U);
  for (std::uint64_t id = 3; id < 8; ++id)  // alternating, across the end of the ring
    EXPECT_TRUE(queue.push({.wr_id = id}, {id % 2 != 0 ? &released : &other, id + 1}, false));
  queue.remove(&released);
  EXPECT_EQ(queue.poll(out), 2U);
  EXPECT_EQ(out[0].wr_id, 4U);
  EXPECT_EQ(out[1].wr_id, 6U);
  EXPECT_EQ(released.load(), 3U);
  EXPECT_EQ(other.load(), 7U);
}

// parity: semantics-111
TEST_F(completions, armed_queue_raises_one_event) {
  completion_queue queue = make(8);
  push(queue, 0);
  EXPECT_EQ(events, 0);
  queue.arm(notify::any);
  EXPECT_EQ(events, 0) << "completions before arming raise no event";
  push(queue, 1);
  push(queue, 2);
  EXPECT_EQ(events, 1);
  EXPECT_EQ(queue.armed(), notify::none);
}

// parity: semantics-114
TEST_F(completions, solicited_only_arming_ignores_unsolicited_successes) {
  completion_queue queue = make(8);
  queue.arm(notify::solicited);
  push(queue, 0);
  EXPECT_EQ(events, 0);
  push(queue, 1, true);
  EXPECT_EQ(events, 1);
  queue.arm(notify::solicited);
  push(queue, 2, false, completion_status::flushed);
  EXPECT_EQ(events, 2);
}

// parity: semantics-117
TEST_F(completions, arming_for_all_is_not_weakened_by_solicited_only_arming) {
  completion_queue queue = make(8);
  queue.arm(notify::any);
  queue.arm(notify::solicited);
  push(queue, 0);
  EXPECT_EQ(events, 1);
}

TEST_F(completions, those_of_a_batch_appear_together_and_raise_one_event) {
  completion_queue queue = make(4);
  queue.arm(notify::any);
  ASSERT_TRUE(push(queue, 7, false));
  EXPECT_EQ(events, 1);
  queue.arm(notify::any);
  completion_queue::batch batch;
  batch.open(queue);
  for (std::uint64_t id = 8; batch.has_room(); ++id)
    batch.push({&released, id + 1}, [&](completion& made) { made = {.wr_id = id}; });
  completion out[4];
  EXPECT_EQ(events, 1);
  batch.close();
  EXPECT_EQ(events, 2);
  ASSERT_EQ(queue.poll(out), 4U);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(out[i].wr_id, 7 + i);
  EXPECT_EQ(released.load(), 11U);
  EXPECT_FALSE(queue.overrun());
}

TEST_F(completions, each_completion_of_a_batch_counts_for_a_moderated_event) {
  completion_queue queue = make(64);
  queue.moderate({.completions = 3}, &moderation_clock);
  const auto push_batch = [&](std::uint64_t count) {
    completion_queue::batch batch;
    batch.open(queue);
    for (std::uint64_t id = 0; id < count; ++id)
      batch.push({&released, id + 1}, [&](completion& made) { made = {.wr_id = id}; });
    batch.close();
  };
  queue.arm(notify::any);
  push_batch(3);
  EXPECT_EQ(events, 1);
  queue.arm(notify::any);
  push_batch(2);
  EXPECT_EQ(events, 1);
  EXPECT_EQ(delays, 1);
  push_batch(4);
  EXPECT_EQ(events, 2) << "one event, even if more completions arrived than it waits for";
  queue.arm(notify::any);
  push_batch(2);
  EXPECT_EQ(events, 2) << "an event resets the count";
}

TEST_F(completions, count_of_armed_queues_follows_the_queue) {
  completion_queue queue = make(8);
  queue.arm(notify::solicited);
  queue.arm(notify::any);
  EXPECT_EQ(armed_queues, 1);
  EXPECT_TRUE(push(queue, 0));
  EXPECT_EQ(armed_queues, 0);
  arms_again = true;
  queue.arm(notify::any);
  EXPECT_TRUE(push(queue, 1));
  EXPECT_EQ(queue.armed(), notify::any);
  EXPECT_EQ(armed_queues, 1);
  arms_again = false;
  EXPECT_TRUE(push(queue, 2));
  EXPECT_EQ(armed_queues, 0);
}

TEST_F(completions, empty_or_unsolicited_batch_keeps_the_queue_armed) {
  completion_queue queue = make(4);
  completion_queue::batch batch;
  queue.arm(notify::solicited);
  batch.open(queue);
  batch.push({&released, 1}, [](completion& made) { made = {.wr_id = 1}; });
  batch.close();
  EXPECT_EQ(queue.armed(), notify::solicited);
  queue.arm(notify::any);
  batch.open(queue);
  batch.close();
  EXPECT_EQ(queue.armed(), notify::any);
  EXPECT_EQ(events, 0);
}

TEST_F(completions, completion_of_destroyed_queue_pair_does_not_access_it) {
  completion_queue queue = make(4);
  push(queue, 6);
  queue.forget(&released);
  completion out[1];
  EXPECT_EQ(queue.poll(out), 1U);
  EXPECT_EQ(released.load(), 0U);
}

TEST_F(completions, timestamps_are_read_from_the_device_clock) {
  completion_queue queue({.capacity = 1, .clock = [] { return time_ns{77}; }});
  push(queue, 0);
  completion out[1];
  ASSERT_EQ(queue.poll(out), 1U);
  EXPECT_EQ(out[0].timestamp, 77U);
}

}  // namespace
}  // namespace verbena::softdev
