// SPDX-License-Identifier: MIT
#include "softdev/core/deadline_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace verbena::softdev {
namespace {

using indices = std::vector<std::uint32_t>;

indices due_at(deadline_queue& queue, time_ns now, std::size_t most = 100) {
  indices out(most);
  out.resize(queue.take_due(now, out));
  return out;
}

TEST(deadline_queue, indices_are_due_in_the_order_of_their_times) {
  deadline_queue queue(100);
  queue.reserve(3);
  EXPECT_EQ(queue.earliest(), never);
  EXPECT_TRUE(queue.schedule(7, 300));
  EXPECT_TRUE(queue.schedule(8, 100));
  EXPECT_FALSE(queue.schedule(9, 200));
  EXPECT_EQ(queue.earliest(), 100U);
  EXPECT_EQ(due_at(queue, 99), indices{});
  EXPECT_EQ(due_at(queue, 250), (indices{8, 9}));
  EXPECT_EQ(queue.earliest(), 300U);
  EXPECT_EQ(due_at(queue, 300), indices{7});
  EXPECT_EQ(queue.earliest(), never);
}

TEST(deadline_queue, an_index_has_its_earliest_time_only) {
  deadline_queue queue(100);
  queue.reserve(1);
  queue.schedule(5, 300);
  EXPECT_FALSE(queue.schedule(5, 400)) << "later";
  EXPECT_TRUE(queue.schedule(5, 200)) << "earlier";
  EXPECT_EQ(due_at(queue, 1000), indices{5});
  EXPECT_EQ(due_at(queue, 1000), indices{}) << "the later times are forgotten";
  EXPECT_TRUE(queue.schedule(5, 400)) << "it can be scheduled again";
}

// Each earlier time leaves an outdated entry, until the heap is full of them.
TEST(deadline_queue, an_index_that_gets_many_earlier_times_is_due_once) {
  deadline_queue queue(100);
  queue.reserve(2);
  queue.schedule(6, 1500);
  for (time_ns when = 2000; when > 1000; --when) queue.schedule(5, when);
  EXPECT_EQ(queue.earliest(), 1001U);
  EXPECT_EQ(due_at(queue, 1001), indices{5});
  EXPECT_EQ(queue.earliest(), 1500U);
  EXPECT_EQ(due_at(queue, 3000), indices{6});
  EXPECT_EQ(due_at(queue, 3000), indices{});
}

TEST(deadline_queue, budget_leaves_the_rest_due) {
  deadline_queue queue(100);
  queue.reserve(10);
  for (std::uint32_t index = 0; index < 10; ++index) queue.schedule(index, 100 + index);
  EXPECT_EQ(due_at(queue, 1000, 4), (indices{0, 1, 2, 3}));
  EXPECT_EQ(queue.earliest(), 104U);
  EXPECT_EQ(due_at(queue, 1000), (indices{4, 5, 6, 7, 8, 9}));
}

// Also with more outdated entries than there is room for.
TEST(deadline_queue, agrees_with_a_map) {
  constexpr std::uint32_t count = 40;
  deadline_queue queue(count);
  queue.reserve(count);
  std::map<std::uint32_t, time_ns> expected;
  std::mt19937 random(1);
  time_ns now = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint32_t index = random() % count;
    const time_ns when = now + 1 + random() % 1000;
    queue.schedule(index, when);
    const auto [place, added] = expected.emplace(index, when);
    if (!added) place->second = std::min(place->second, when);
    if (random() % 50 != 0) continue;
    now += random() % 500;
    for (const std::uint32_t due : due_at(queue, now)) {
      ASSERT_TRUE(expected.contains(due));
      ASSERT_LE(expected[due], now);
      expected.erase(due);
    }
    time_ns earliest = never;
    for (const auto& [each, at] : expected) earliest = std::min(earliest, at);
    ASSERT_GT(earliest, now) << "an index that is due was not returned";
    ASSERT_EQ(queue.earliest(), earliest);
  }
}

TEST(deadline_queue, several_threads_schedule_and_take) {
  constexpr std::uint32_t per_thread = 1000;
  deadline_queue queue(4 * per_thread);
  queue.reserve(4 * std::size_t{per_thread});
  std::array<std::atomic<int>, 4 * per_thread> seen{};
  std::atomic<std::uint32_t> total = 0;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (std::uint32_t thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (std::uint32_t i = 0; i < per_thread; ++i)
        queue.schedule(thread * per_thread + i, 1 + i % 17);
      while (total < 4 * per_thread)
        for (const std::uint32_t due : due_at(queue, 100, 7)) {
          ++seen[due];
          ++total;
        }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& each : seen) EXPECT_EQ(each, 1);
}

}  // namespace
}  // namespace verbena::softdev
