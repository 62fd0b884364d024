// SPDX-License-Identifier: MIT
#include "verbena/base/flags.hpp"

#include <gtest/gtest.h>

#include "tests/unit/base/map_keys.hpp"

namespace verbena {
enum class fruit : unsigned { apple = 1, pear = 2, plum = 4 };
template <>
inline constexpr bool enable_flags<fruit> = true;

namespace {

using basket = flags<fruit>;

static_assert(basket().empty());
static_assert((fruit::apple | fruit::plum).mask() == 5);
static_assert(!flag_enum<int>);

// parity: ibverbs-tests-18, ibverbs-146
TEST(flags, contains_is_true_only_if_all_bits_are_set) {
  const basket some = fruit::apple | fruit::plum;
  EXPECT_TRUE(some.contains(fruit::apple));
  EXPECT_TRUE(some.contains(fruit::apple | fruit::plum));
  EXPECT_FALSE(some.contains(fruit::apple | fruit::pear));
  EXPECT_TRUE(some.contains({}));
}

// parity: ibverbs-tests-18, ibverbs-146
TEST(flags, assignment_operators_unite_and_intersect) {
  basket some = fruit::apple;
  some |= fruit::pear;
  EXPECT_EQ(some, fruit::apple | fruit::pear);
  some &= fruit::pear;
  EXPECT_EQ(some, basket(fruit::pear));
}

// parity: rrddmma-36
TEST(flags, without_removes_bits) {
  EXPECT_EQ((fruit::apple | fruit::pear).without(fruit::pear), basket(fruit::apple));
  EXPECT_EQ(basket(fruit::apple).without(fruit::plum), basket(fruit::apple));
}

TEST(flags, sets_are_keys_that_differ_by_their_bits) {
  test::expect_different_keys<basket>(
      {{}, fruit::apple, fruit::plum, fruit::apple | fruit::plum, basket::from_mask(8)});
}

// parity: ibverbs-148
TEST(flags, unknown_bits_are_kept) {
  const auto raw = basket::from_mask(0x80000001U);
  EXPECT_EQ(raw.mask(), 0x80000001U);
  EXPECT_EQ(raw.without(fruit::apple).mask(), 0x80000000U);
  EXPECT_FALSE(raw.without(fruit::apple).empty());
  EXPECT_EQ((raw | fruit::pear).mask(), 0x80000003U);
}

}  // namespace
}  // namespace verbena
