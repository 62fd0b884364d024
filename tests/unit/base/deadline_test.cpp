// SPDX-License-Identifier: MIT
#include "verbena/base/deadline.hpp"

#include <gtest/gtest.h>

#include "src/base/earliest.hpp"

namespace verbena {
namespace {

using namespace std::chrono_literals;

TEST(deadline, deadline_never_does_not_expire) {
  EXPECT_TRUE(deadline::never().is_never());
  EXPECT_FALSE(deadline::never().expired());
  EXPECT_EQ(deadline::never().poll_timeout_ms(), -1);
}

TEST(deadline, deadline_of_zero_or_negative_duration_is_expired) {
  EXPECT_TRUE(deadline::after(0ns).expired());
  EXPECT_TRUE(deadline::after(-5s).expired());
  EXPECT_EQ(deadline::after(-5s).poll_timeout_ms(), 0);
  EXPECT_TRUE(deadline::at(deadline::clock::time_point::min()).expired());
  EXPECT_EQ(deadline::at(deadline::clock::time_point::min()).poll_timeout_ms(), 0);
}

TEST(deadline, deadline_in_the_future_is_not_expired) {
  const auto later = deadline::after(1h);
  EXPECT_FALSE(later.expired());
  EXPECT_FALSE(later.is_never());
  EXPECT_GT(later.poll_timeout_ms(), 3'590'000);
  EXPECT_LE(later.poll_timeout_ms(), 3'600'000);
}

// parity: ibverbs-89
TEST(deadline, duration_beyond_the_range_of_the_clock_means_never) {
  EXPECT_TRUE(deadline::after(std::chrono::nanoseconds::max()).is_never());
  EXPECT_TRUE(deadline::after(std::chrono::milliseconds::max()).is_never());
  EXPECT_TRUE(deadline::after(std::chrono::seconds::max()).is_never());
  EXPECT_TRUE(deadline::after(std::chrono::hours::max()).is_never());
  EXPECT_TRUE(deadline::after(std::chrono::duration<double>(1e300)).is_never());
  EXPECT_TRUE(deadline::after(std::chrono::duration<unsigned long>(~0UL)).is_never());
  using unsigned_ns = std::chrono::duration<std::uint64_t, std::nano>;
  EXPECT_TRUE(deadline::after(unsigned_ns::max()).is_never());
  EXPECT_TRUE(deadline::after(std::chrono::milliseconds::min()).expired());
  EXPECT_TRUE(deadline::after(std::chrono::hours::min()).expired());
  EXPECT_TRUE(deadline::after(std::chrono::duration<double>(-1e300)).expired());
}

TEST(deadline, duration_of_any_type_is_exact) {
  using detail::saturating_cast;
  using std::chrono::nanoseconds;
  static_assert(saturating_cast<nanoseconds>(1500us) == 1'500'000ns);
  static_assert(saturating_cast<nanoseconds>(std::chrono::duration<double>(0.5)) == 500'000'000ns);
  static_assert(saturating_cast<nanoseconds>(std::chrono::duration<int>(2)) == 2s);
  static_assert(saturating_cast<nanoseconds>(std::chrono::duration<int, std::pico>(-3999)) == -3ns);
  static_assert(saturating_cast<nanoseconds>(9'223'372'036s) == 9'223'372'036s);
  static_assert(saturating_cast<nanoseconds>(9'223'372'037s) == nanoseconds::max());
  static_assert(saturating_cast<nanoseconds>(-9'223'372'037s) == nanoseconds::min());
}

TEST(deadline, time_left_is_never_negative_and_does_not_overflow) {
  EXPECT_EQ(deadline::never().time_left(), deadline::clock::duration::max());
  EXPECT_EQ(deadline::after(-5s).time_left(), 0ns);
  EXPECT_EQ(deadline::at(deadline::clock::time_point::min()).time_left(), 0ns);
  const auto left = deadline::after(1h).time_left();
  EXPECT_GT(left, 30min);
  EXPECT_LE(left, 1h);
}

TEST(deadline, share_of_a_deadline_ends_after_that_part_of_the_time) {
  using detail::share_of;
  EXPECT_TRUE(share_of(deadline::never(), 3).is_never());
  EXPECT_TRUE(share_of(deadline::after(-5s), 3).expired());
  // A past deadline whose distance from now exceeds the range of a duration.
  EXPECT_TRUE(share_of(deadline::at(deadline::clock::time_point::min()), 3).expired());
  const auto left = share_of(deadline::after(4h), 4).time_left();
  EXPECT_GT(left, 30min);
  EXPECT_LE(left, 1h);
}

// parity: ibverbs-85
TEST(deadline, poll_timeout_is_rounded_up) {
  // Less than 1 ms remains. The timeout is rounded up to 1, unless the deadline has expired.
  const auto soon = deadline::after(900us);
  const int wait = soon.poll_timeout_ms();
  EXPECT_TRUE(wait == 1 || soon.expired());
}

// parity: ibverbs-88
TEST(deadline, poll_timeout_is_at_most_a_day) {
  EXPECT_EQ(deadline::after(24h * 400).poll_timeout_ms(), 86'400'000);
}

TEST(deadline, when_returns_the_given_point_in_time) {
  const auto when = deadline::clock::now() + 3s;
  EXPECT_EQ(deadline::at(when).when(), when);
}

}  // namespace
}  // namespace verbena
