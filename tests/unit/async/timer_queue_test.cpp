// SPDX-License-Identifier: MIT
#include "verbena/async/detail/timer_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <vector>

#include "tests/unit/campaign_seed.hpp"

namespace verbena::test {
namespace {

using async::detail::time_point;
using async::detail::timer;
using async::detail::timer_queue;

struct noted_timer : timer {
  std::vector<noted_timer*>* expired = nullptr;
};

struct timers : ::testing::Test {
  timers() {
    for (auto& each : all) {
      each = std::make_unique<noted_timer>();
      each->expired = &expired;
      each->expire = [](timer& self) noexcept {
        auto& mine = static_cast<noted_timer&>(self);
        mine.expired->push_back(&mine);
      };
    }
  }
  static time_point at(int tick) { return time_point(std::chrono::milliseconds(tick)); }

  timer_queue queue;
  std::vector<std::unique_ptr<noted_timer>> all{64};
  std::vector<noted_timer*> expired;
};

TEST_F(timers, expire_in_the_order_of_their_times) {
  for (const int tick : {5, 1, 9, 3, 7}) queue.set(*all[static_cast<std::size_t>(tick)], at(tick));
  EXPECT_EQ(queue.next(), at(1));
  queue.expire(at(7));
  ASSERT_EQ(expired.size(), 4U);
  EXPECT_EQ(expired[0], all[1].get());
  EXPECT_EQ(expired[3], all[7].get());
  EXPECT_EQ(queue.next(), at(9));
  queue.reset(*all[9]);
  EXPECT_TRUE(queue.empty());
  queue.reset(*all[9]);
}

// Compares the queue with a sorted list.
TEST_F(timers, agree_with_a_sorted_list) {
  std::mt19937 random(test::campaign_seed(1));
  std::vector<noted_timer*> model;
  int now = 0;
  for (int step = 0; step < test::campaign_size(20'000, 1'000'000); ++step) {
    noted_timer& one = *all[random() % all.size()];
    const bool is_set = std::ranges::find(model, &one) != model.end();
    EXPECT_EQ(one.is_set, is_set);
    if (is_set) {
      queue.reset(one);
      std::erase(model, &one);
    } else {
      queue.set(one, at(now + static_cast<int>(random() % 100)));
      model.push_back(&one);
    }
    if (random() % 8 != 0) continue;
    now += static_cast<int>(random() % 20);
    queue.expire(at(now));
    for (std::size_t i = 1; i < expired.size(); ++i)
      EXPECT_LE(expired[i - 1]->when, expired[i]->when);
    for (noted_timer* each : expired) EXPECT_EQ(std::erase(model, each), 1U);
    expired.clear();
    const auto first = std::ranges::min_element(model, {}, [](auto* each) { return each->when; });
    EXPECT_EQ(queue.next(), first == model.end() ? std::optional<time_point>() : (*first)->when);
    if (first != model.end()) {
      EXPECT_GT((*first)->when, at(now));
    }
  }
}

}  // namespace
}  // namespace verbena::test
