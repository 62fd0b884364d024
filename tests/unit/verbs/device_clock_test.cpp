// SPDX-License-Identifier: MIT
#include "verbena/verbs/device_clock.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/verbs/device_attributes.hpp"

namespace verbena {
namespace {

using testing_support::expect_error;
using testing_support::open_soft;

constexpr std::uint64_t mask48 = 0xffff'ffff'ffff;
constexpr device_clock_time at(std::uint64_t ticks, std::uint64_t mask = mask48) {
  return device_clock_time({.ticks = ticks, .mask = mask});
}

TEST(device_clock_time, keeps_the_bits_of_its_clock) {
  EXPECT_EQ(at(5).ticks(), 5U);
  EXPECT_EQ(at(mask48 + 6).ticks(), 5U);
  EXPECT_EQ(at(5).bits(), 48U);
  EXPECT_EQ(at(7, 0).bits(), 64U) << "a mask of 0 means all";
  EXPECT_EQ(at(~std::uint64_t{0}, 0).ticks(), ~std::uint64_t{0});
  EXPECT_EQ(at(3, 1).ticks(), 1U);
  EXPECT_EQ(to_string(at(123)), "123 ticks");
}

// parity: ibverbs-63
TEST(device_clock_time, differences_survive_the_wrap_around) {
  static_assert((at(2) - at(mask48)).value() == 3);
  static_assert((at(mask48) - at(2)).value() == -3);
  for (const std::uint64_t mask : {std::uint64_t{0xff}, std::uint64_t{0xffff'ffff}, mask48,
                                   ~std::uint64_t{0} >> 1, ~std::uint64_t{0}}) {
    const std::uint64_t half = mask / 2;
    for (const std::uint64_t begin :
         {std::uint64_t{0}, std::uint64_t{1}, half, half + 1, mask - 1, mask})
      for (const std::uint64_t step :
           {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{100}, half}) {
        const auto first = at(begin, mask);
        const auto later = at(begin + step, mask);
        ASSERT_EQ((later - first).value(), static_cast<std::int64_t>(step)) << begin << " " << mask;
        ASSERT_EQ((first - later).value(), -static_cast<std::int64_t>(step))
            << begin << " " << mask;
        ASSERT_EQ(first.is_before(later), step != 0);
        ASSERT_FALSE(later.is_before(first));
        ASSERT_EQ(first == later, step == 0);
      }
  }
}

TEST(device_clock_time, one_bit_clock_wraps_around) {
  EXPECT_EQ((at(1, 1) - at(1, 1)).value(), 0);
  EXPECT_EQ(std::abs((at(0, 1) - at(1, 1)).value()), 1);
}

extended_device_attributes with_clock(std::uint64_t khz) {
  ibv_device_attr_ex native{};
  native.hca_core_clock = khz;
  return extended_device_attributes(native);
}

TEST(device_ticks, duration_follows_the_clock_frequency) {
  using namespace std::chrono_literals;
  EXPECT_EQ(with_clock(1'000'000).duration_of(device_ticks(1'234)), 1'234ns);
  EXPECT_EQ(with_clock(1'000'000).duration_of(device_ticks(-5)), -5ns);
  EXPECT_EQ(with_clock(156'250).duration_of(device_ticks(156'250'000)), 1s);
  EXPECT_EQ(with_clock(156'250).duration_of(device_ticks(1)), 6ns) << "6.4 ns, towards zero";
  EXPECT_EQ(with_clock(3'000'000).duration_of(device_ticks(2'999'999)), 999'999ns);
  EXPECT_EQ(with_clock(0).duration_of(device_ticks(1)), std::nullopt);
  EXPECT_EQ(with_clock(~std::uint64_t{0}).duration_of(device_ticks(1)), std::nullopt);
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(with_clock(1).duration_of(device_ticks(most)), std::chrono::nanoseconds::max());
  EXPECT_EQ(with_clock(1).duration_of(device_ticks(-most)), std::chrono::nanoseconds::min());
  EXPECT_EQ(with_clock(1'000'000).duration_of(device_ticks(most)), std::chrono::nanoseconds(most));
}

timespec shown{};
std::uint32_t answered = IBV_VALUES_MASK_RAW_CLOCK;
std::uint64_t timestamp_mask = 0;
int asked_for_mask = 0;

class read_clock : public ::testing::Test {
 protected:
  read_clock() {
    answered = IBV_VALUES_MASK_RAW_CLOCK;
    asked_for_mask = 0;
    from.verbs.query_rt_values_ex.set([](ibv_context*, ibv_values_ex* values) {
      EXPECT_EQ(values->comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
      values->comp_mask = answered;
      values->raw_clock = shown;
      return 0;
    });
    from.verbs.query_device_ex.set([](ibv_context*, ibv_device_attr_ex* out) {
      ++asked_for_mask;
      out->completion_timestamp_mask = timestamp_mask;
      return 0;
    });
  }
  context opened() { return open_soft(from).value(); }

  provider from = *soft_provider().value();
};

// parity: ibverbs-63
TEST_F(read_clock, adds_both_fields_and_queries_the_mask_once) {
  timestamp_mask = mask48;
  const auto device = opened();
  shown = {.tv_sec = 2, .tv_nsec = 7};
  EXPECT_EQ(device.read_clock().value(), at(2'000'000'007));
  shown = {.tv_sec = 0, .tv_nsec = 0x1'2345'6789'abcd};  // drivers put all ticks here
  EXPECT_EQ(device.read_clock().value(), at(0x2345'6789'abcd));
  shown.tv_nsec = 0x1'2345'6789'abce;
  const auto copy = device;  // NOLINT(performance-unnecessary-copy-initialization): it is tested
  EXPECT_EQ((copy.read_clock().value() - at(0x2345'6789'abcd)).value(), 1);
  EXPECT_EQ(asked_for_mask, 1);
}

TEST_F(read_clock, without_timestamp_mask_all_bits_are_valid) {
  timestamp_mask = 0;
  shown = {.tv_sec = 0, .tv_nsec = -1};
  const auto device = opened();
  EXPECT_EQ(device.read_clock().value().bits(), 64U);
  EXPECT_EQ(device.read_clock().value().ticks(), ~std::uint64_t{0});
  EXPECT_EQ(asked_for_mask, 1);
}

// parity: ibverbs-62
TEST_F(read_clock, device_without_clock_is_not_supported) {
  answered = 0;
  expect_error(opened().read_clock(), "ibv_query_rt_values_ex on soft0");
  EXPECT_EQ(opened().read_clock().error().kind(), error_kind::not_supported);
  for (const int code : {EOPNOTSUPP, EIO}) {
    static int refusal;
    refusal = code;
    from.verbs.query_rt_values_ex.set([](ibv_context*, ibv_values_ex*) { return refusal; });
    const auto refused = opened().read_clock();
    expect_error(refused, "ibv_query_rt_values_ex on soft0");
    EXPECT_EQ(refused.error().code(), code);
    EXPECT_EQ(refused.error().kind(), code == EIO ? error_kind::os : error_kind::not_supported);
  }
}

// The clock of soft0 is set to a time shortly before its wrap-around.
// parity: ibverbs-63
TEST(read_clock_of_soft0, goes_on_across_the_wrap_around) {
  const auto device = open_soft();
  const auto attributes = device.query_extended().value();
  const std::uint64_t last = attributes.completion_timestamp_mask();
  const auto set = "clock " + std::to_string(last - 50'000'000);  // 50 ms
  ASSERT_EQ(device.provider().soft_inject_event(device.native(), set.c_str()), 0);
  const auto first = device.read_clock().value();
  auto later = first;
  const auto limit = deadline::after(std::chrono::seconds(20));
  while (later.ticks() >= first.ticks() && !limit.expired()) later = device.read_clock().value();
  EXPECT_LT(later.ticks(), first.ticks()) << "the clock did not wrap around";
  EXPECT_TRUE(first.is_before(later));
  const auto between = attributes.duration_of(later - first);
  ASSERT_TRUE(between.has_value());
  EXPECT_GT(between->count(), 0);
  EXPECT_LT(*between, std::chrono::seconds(20));
}

}  // namespace
}  // namespace verbena
