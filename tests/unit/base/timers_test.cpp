// SPDX-License-Identifier: MIT
#include "verbena/base/timers.hpp"

#include <gtest/gtest.h>

namespace verbena {
namespace {

using namespace std::chrono_literals;

TEST(ack_timeout, default_is_67_milliseconds) {
  EXPECT_EQ(ack_timeout().exponent(), 14);
  EXPECT_EQ(ack_timeout().duration(), 67'108'864ns);
  EXPECT_EQ(to_string(ack_timeout()), "67.108864ms");
}

// parity: ibverbs-tests-26, ibverbs-179
TEST(ack_timeout, encodable_durations_are_exact) {
  for (std::uint8_t exponent = 1; exponent <= 31; ++exponent) {
    const auto timeout = ack_timeout::from_exponent(exponent);
    EXPECT_EQ(timeout.duration(), 4096ns * (std::int64_t{1} << exponent));
    EXPECT_EQ(ack_timeout::at_least(timeout.duration()), timeout);
  }
}

// parity: ibverbs-tests-27, ibverbs-179
TEST(ack_timeout, at_least_rounds_up) {
  for (std::uint8_t exponent = 1; exponent < 31; ++exponent) {
    const auto wait = ack_timeout::from_exponent(exponent).duration() + 1ns;
    EXPECT_EQ(ack_timeout::at_least(wait).exponent(), exponent + 1);
  }
}

// parity: ibverbs-tests-28, ibverbs-180
TEST(ack_timeout, at_least_clamps_and_is_never_infinite) {
  EXPECT_EQ(ack_timeout::at_least(-1s).exponent(), 1);
  EXPECT_EQ(ack_timeout::at_least(0ns).exponent(), 1);
  EXPECT_EQ(ack_timeout::at_least(std::chrono::nanoseconds::max()).exponent(), 31);
}

// parity: ibverbs-tests-29, ibverbs-181
TEST(ack_timeout, infinite_is_exponent_zero) {
  EXPECT_TRUE(ack_timeout::infinite().is_infinite());
  EXPECT_EQ(ack_timeout::infinite().exponent(), 0);
  EXPECT_EQ(ack_timeout::from_exponent(0), ack_timeout::infinite());
  EXPECT_EQ(ack_timeout::infinite().duration(), std::chrono::nanoseconds::max());
  EXPECT_EQ(to_string(ack_timeout::infinite()), "infinite");
}

// parity: ibverbs-183
TEST(ack_timeout, to_string_omits_trailing_zeros) {
  EXPECT_EQ(to_string(ack_timeout::from_exponent(1)), "8.192us");
  EXPECT_EQ(to_string(ack_timeout::from_exponent(4)), "65.536us");
  EXPECT_EQ(to_string(ack_timeout::from_exponent(20)), "4.294967296s");
}

// parity: ibverbs-tests-30, ibverbs-182
TEST(ack_timeout_death, exponent_32_aborts) {
  EXPECT_DEATH(static_cast<void>(ack_timeout::from_exponent(32)),
               "the exponent of an ACK timeout exceeds 31");
}

// parity: ibverbs-tests-34, ibverbs-184
TEST(rnr_timer, encoding_0_is_the_longest_delay) {
  EXPECT_EQ(rnr_timer::from_encoding(0).duration(), 655'360us);
  EXPECT_EQ(rnr_timer::from_encoding(1).duration(), 10us);
  EXPECT_EQ(rnr_timer::from_encoding(31).duration(), 491'520us);
  EXPECT_EQ(rnr_timer().encoding(), 16);
}

// parity: ibverbs-tests-31, ibverbs-184
TEST(rnr_timer, every_encoding_round_trips_through_its_duration) {
  for (std::uint8_t encoding = 0; encoding < 32; ++encoding) {
    const auto timer = rnr_timer::from_encoding(encoding);
    EXPECT_EQ(rnr_timer::at_least(timer.duration()), timer) << int{encoding};
  }
}

// parity: ibverbs-tests-32, ibverbs-185
TEST(rnr_timer, at_least_returns_the_shortest_sufficient_delay) {
  EXPECT_EQ(rnr_timer::at_least(10'001ns).duration(), 20us);
  EXPECT_EQ(rnr_timer::at_least(491'521us).encoding(), 0);
  for (std::uint8_t encoding = 0; encoding < 32; ++encoding)
    for (const auto off : {-1ns, 1ns, 333ns, 5'001ns}) {
      const auto wait = rnr_timer::from_encoding(encoding).duration() + off;
      const auto chosen = rnr_timer::at_least(wait).duration();
      EXPECT_TRUE(chosen >= wait || chosen == 655'360us) << wait.count();
      for (std::uint8_t other = 0; other < 32; ++other) {
        const auto instead = rnr_timer::from_encoding(other).duration();
        EXPECT_FALSE(instead >= wait && instead < chosen) << wait.count();
      }
    }
}

// parity: ibverbs-tests-33, ibverbs-185
TEST(rnr_timer, at_least_clamps_at_both_ends) {
  EXPECT_EQ(rnr_timer::at_least(std::chrono::hours::max()).encoding(), 0);
  EXPECT_EQ(ack_timeout::at_least(std::chrono::seconds::max()).exponent(), 31);
  EXPECT_EQ(rnr_timer::at_least(-1s).encoding(), 1);
  EXPECT_EQ(rnr_timer::at_least(1h).encoding(), 0);
}

TEST(rnr_timer, to_string_prints_the_delay) {
  EXPECT_EQ(to_string(rnr_timer::from_encoding(0)), "655.36ms");
  EXPECT_EQ(to_string(rnr_timer::from_encoding(1)), "10us");
}

// parity: ibverbs-tests-35, ibverbs-186
TEST(rnr_timer_death, encoding_32_aborts) {
  EXPECT_DEATH(static_cast<void>(rnr_timer::from_encoding(32)),
               "the encoding of an RNR timer exceeds 31");
}

}  // namespace
}  // namespace verbena
