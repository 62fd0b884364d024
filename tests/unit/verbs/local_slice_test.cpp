// SPDX-License-Identifier: MIT
#include "verbena/verbs/local_slice.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/assert.hpp"

namespace verbena {
namespace {

const local_slice page(0x10000, 4096, local_key(7));

// parity: ibverbs-tests-7, ibverbs-155, rrddmma-47
TEST(local_slice, has_the_layout_of_ibv_sge) {
  const std::vector<local_slice> list = {page, page.slice(1, 2)};
  std::vector<ibv_sge> entries(list.size());
  std::memcpy(entries.data(), list.data(), sizeof(ibv_sge) * list.size());
  EXPECT_EQ(entries[0].addr, 0x10000U);
  EXPECT_EQ(entries[0].length, 4096U);
  EXPECT_EQ(entries[0].lkey, 7U);
  EXPECT_EQ(entries[1].addr, 0x10001U);
  EXPECT_EQ(entries[1].length, 2U);
  EXPECT_EQ(entries[1].lkey, 7U);
}

// parity: ibverbs-tests-8, ibverbs-155
TEST(local_slice, survives_conversion_to_native) {
  const auto back = local_slice::from_native(page.native());
  EXPECT_EQ(back.address(), page.address());
  EXPECT_EQ(back.length(), page.length());
  EXPECT_EQ(back.key(), page.key());
}

// parity: ibverbs-156
TEST(local_slice, slices_are_inside_the_slice) {
  EXPECT_EQ(page.slice(4095, 1).address(), 0x10000U + 4095);
  EXPECT_EQ(page.slice(0, 4096).length(), 4096U);
  EXPECT_EQ(page.slice(96).length(), 4000U);
  EXPECT_EQ(page.slice(96).key(), page.key());
  EXPECT_EQ(page.slice(100, 50).slice(10, 5).address(), 0x10000U + 110);
}

TEST(local_slice, accepts_the_maximum_length) {
  EXPECT_EQ(local_slice(0, local_slice::max_length, local_key(1)).length(), 0xffff'ffffU);
}

TEST(local_slice, element_counts_in_elements) {
  EXPECT_EQ(page.element<std::uint64_t>(2), page.slice(16, 8));
  EXPECT_EQ(page.element<std::uint16_t>(1, 3), page.slice(2, 6));
}

TEST(local_slice, try_slice_reports_the_range_and_the_length) {
  EXPECT_EQ(page.try_slice(0, 4096).value(), page);
  EXPECT_EQ(page.try_element<std::uint64_t>(511).value(), page.slice(4088, 8));
  testing_support::expect_error(page.try_slice(4096, 512),
                                "slice [4096, 4608) exceeds the slice of 4096 bytes");
  testing_support::expect_error(page.try_slice(7, 0), "slice [7, 7) is empty");
  testing_support::expect_error(page.try_element<std::uint64_t>(512), "slice [4096, 4104) exceeds");
}

// The text of the rule is built at run time, and must exist when the test catches the violation.
TEST(local_slice, violation_that_a_handler_throws_has_the_text_of_the_rule) {
  const auto before = set_violation_handler([](const contract_violation& broken) { throw broken; });
  std::string rule;
  try {
    static_cast<void>(page.slice(4096, 512));
  } catch (const contract_violation& broken) {
    rule = broken.rule;
  }
  set_violation_handler(before);
  EXPECT_TRUE(rule.starts_with("slice [4096, 4608) exceeds")) << rule;
}

TEST(local_slice_death, empty_and_oversized_slices_abort) {
  EXPECT_DEATH(local_slice(0, 0, local_key(1)), "a slice has 0 bytes");
  EXPECT_DEATH(local_slice(0, 0x1'0000'0000, local_key(1)), "a slice exceeds 4 GiB - 1 bytes");
}

// parity: ibverbs-rs-12, ibverbs-157
TEST(local_slice_death, slice_outside_aborts) {
  EXPECT_DEATH(static_cast<void>(page.slice(0, 4097)), "exceeds the slice of 4096 bytes");
  EXPECT_DEATH(static_cast<void>(page.slice(4096, 1)), "exceeds the slice of 4096 bytes");
  EXPECT_DEATH(static_cast<void>(page.slice(4097, 0)), "exceeds the slice of 4096 bytes");
  EXPECT_DEATH(static_cast<void>(page.slice(~std::size_t{0}, 2)), "exceeds the slice");
  EXPECT_DEATH(static_cast<void>(page.slice(1, ~std::size_t{0})), "exceeds the slice");
  EXPECT_DEATH(static_cast<void>(page.slice(4096)), "exceeds the slice of 4096 bytes");
  EXPECT_DEATH(static_cast<void>(page.slice(5, 0)), "a slice has 0 bytes");
}

}  // namespace
}  // namespace verbena
