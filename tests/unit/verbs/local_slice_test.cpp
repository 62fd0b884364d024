// SPDX-License-Identifier: MIT
#include "verbena/verbs/local_slice.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace verbena {
namespace {

const local_slice page(0x10000, 4096, local_key(7));

TEST(local_slice, is_laid_out_as_a_scatter_gather_entry) {
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

TEST(local_slice, survives_the_way_through_the_c_api) {
  const auto back = local_slice::from_native(page.native());
  EXPECT_EQ(back.address(), page.address());
  EXPECT_EQ(back.length(), page.length());
  EXPECT_EQ(back.key(), page.key());
}

TEST(local_slice, parts_lie_inside) {
  EXPECT_EQ(page.slice(4095, 1).address(), 0x10000U + 4095);
  EXPECT_EQ(page.slice(0, 4096).length(), 4096U);
  EXPECT_EQ(page.slice(96).length(), 4000U);
  EXPECT_EQ(page.slice(96).key(), page.key());
  EXPECT_EQ(page.slice(100, 50).slice(10, 5).address(), 0x10000U + 110);
}

TEST(local_slice, may_have_almost_four_gibibytes) {
  EXPECT_EQ(local_slice(0, local_slice::max_length, local_key(1)).length(), 0xffff'ffffU);
}

TEST(local_slice_death, empty_and_oversized_slices_break_a_rule) {
  EXPECT_DEATH(local_slice(0, 0, local_key(1)), "a slice has at least one byte");
  EXPECT_DEATH(local_slice(0, 0x1'0000'0000, local_key(1)), "at most 4 GiB - 1 byte");
}

TEST(local_slice_death, parts_outside_break_a_rule) {
  EXPECT_DEATH(static_cast<void>(page.slice(0, 4097)), "a part of a slice lies inside the slice");
  EXPECT_DEATH(static_cast<void>(page.slice(4096, 1)), "a part of a slice lies inside the slice");
  EXPECT_DEATH(static_cast<void>(page.slice(4097, 0)), "a part of a slice lies inside the slice");
  EXPECT_DEATH(static_cast<void>(page.slice(~std::size_t{0}, 2)), "lies inside the slice");
  EXPECT_DEATH(static_cast<void>(page.slice(1, ~std::size_t{0})), "lies inside the slice");
  EXPECT_DEATH(static_cast<void>(page.slice(4096)), "a part of a slice lies inside the slice");
  EXPECT_DEATH(static_cast<void>(page.slice(5, 0)), "a slice has at least one byte");
}

}  // namespace
}  // namespace verbena
