// SPDX-License-Identifier: MIT
#include "verbena/memory/remote_view.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>

#include "tests/unit/base/map_keys.hpp"
#include "tests/unit/verbs/loopback.hpp"

namespace verbena {
namespace {

struct point {
  std::uint32_t x;
  std::uint64_t y;
};
struct table {
  char name[6];
  std::uint16_t used;
  point corner;
  std::array<point, 5> points;
  std::uint32_t grid[3][4];
};
struct named_table : table {};

constexpr std::uint64_t base = 0x10000;
constexpr remote_key key(7);

constexpr remote_region region(std::uint64_t length, std::uint64_t address = base) {
  return remote_region({.address = address, .length = length, .key = key});
}

static_assert(remote_layout<table> && remote_layout<int[4]> && !remote_layout<const int>);
static_assert(remote_view<point>::of(region(16))->region() == region(16));
static_assert(!remote_view<point>::of(region(16), 1));
static_assert(remote_array<point>::of(region(40))->size() == 2);
static_assert(remote_view<point>::of(region(32)) == remote_view<point>::of(region(16)));

#define EXPECT_FIELD(seen, type, member) \
  EXPECT_EQ((seen).region(), region(sizeof(type::member), base + 8 + offsetof(type, member)))

// parity: ibverbs-rs-62
TEST(remote_view, fields_have_offset_and_size_of_the_member) {
  const auto view = remote_view<table>::of(region(1000), 8);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->region(), region(sizeof(table), base + 8));
  EXPECT_FIELD(view->field(&table::name), table, name);
  EXPECT_FIELD(view->field(&table::used), table, used);
  EXPECT_FIELD(view->field(&table::corner), table, corner);
  EXPECT_FIELD(view->field(&table::points), table, points);
  EXPECT_FIELD(view->field(&table::grid), table, grid);
  EXPECT_EQ(view->field(&table::corner).field(&point::y).region(),
            region(8, base + 8 + offsetof(table, corner) + offsetof(point, y)));
}

TEST(remote_view, arrays_in_fields_have_elements) {
  const auto view = remote_view<table>::of(region(sizeof(table))).value();
  const auto points = view.field(&table::points);
  const std::uint64_t begin = base + offsetof(table, points);
  EXPECT_EQ(points.size(), 5U);
  EXPECT_EQ(points.element(4)->region(), region(sizeof(point), begin + 4 * sizeof(point)));
  EXPECT_FALSE(points.element(5));
  EXPECT_EQ(points.field(3, &point::y)->region(), region(8, begin + 3 * sizeof(point) + 8));
  EXPECT_FALSE(points.field(5, &point::y));
  EXPECT_EQ(points.elements(1, 4)->region(), region(4 * sizeof(point), begin + sizeof(point)));
  EXPECT_EQ(points.elements(5, 0)->size(), 0U);
  EXPECT_FALSE(points.elements(1, 5));
  EXPECT_FALSE(points.elements(6, 0));
  EXPECT_EQ(view.field(&table::name).element(5)->region().length(), 1U);
  const auto cell = view.field(&table::grid).element(2)->element(3);
  EXPECT_EQ(cell->region(), region(4, base + offsetof(table, grid) + 11 * 4));
  EXPECT_FALSE(view.field(&table::grid).element(3));
}

TEST(remote_view, fields_of_a_base_class_are_accessible) {
  const auto view = remote_view<named_table>::of(region(1000)).value();
  EXPECT_EQ(view.field(&named_table::used).region(), region(2, base + offsetof(table, used)));
  const auto many = remote_array<named_table>::of(region(1000)).value();
  EXPECT_EQ(many.field(1, &named_table::used)->region(),
            region(2, base + sizeof(table) + offsetof(table, used)));
}

TEST(remote_view, view_outside_the_region_is_refused) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_TRUE(remote_view<point>::of(region(16)));
  EXPECT_FALSE(remote_view<point>::of(region(15)));
  EXPECT_FALSE(remote_view<point>::of(region(0)));
  EXPECT_TRUE(remote_view<point>::of(region(20), 4));
  for (const std::uint64_t offset :
       {std::uint64_t{5}, std::uint64_t{20}, most - 15, most - 1, most})
    EXPECT_FALSE(remote_view<point>::of(region(20), offset)) << offset;
  const auto top = remote_region({.address = most - 20, .length = 20, .key = key});
  EXPECT_EQ(remote_view<point>::of(top, 4)->region().address(), most - 16);
  EXPECT_FALSE(remote_view<point>::of(top, 5));
}

// parity: ibverbs-rs-62
TEST(remote_array, counts_do_not_overflow) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  using array = remote_array<point>;
  EXPECT_EQ(array::of(region(15))->size(), 0U);
  EXPECT_EQ(array::of(region(100))->size(), 6U);
  EXPECT_EQ(array::of(region(100))->region().length(), 96U);
  EXPECT_EQ(array::of(region(100), 4, 6)->size(), 6U);
  EXPECT_EQ(array::of(region(100), 100, 0)->size(), 0U);
  EXPECT_FALSE(array::of(region(100), 101, 0));
  EXPECT_FALSE(array::of(region(100), 5, 6));
  // 2^60 of 16 bytes are 2^64, which is 0 in 64 bits.
  for (const std::uint64_t count : {std::uint64_t{1} << 60U, (std::uint64_t{1} << 60U) + 1, most})
    EXPECT_FALSE(array::of(region(100), 0, count)) << count;
  const auto six = array::of(region(96)).value();
  for (const std::uint64_t index : {std::uint64_t{6}, std::uint64_t{1} << 60U, most}) {
    EXPECT_FALSE(six.element(index)) << index;
    EXPECT_FALSE(six.elements(index, 1)) << index;
    EXPECT_FALSE(six.elements(1, index)) << index;
    EXPECT_FALSE(six.field(index, &point::x)) << index;
  }
}

// Random ranges: each returned range is inside the region and has the requested size.
TEST(remote_array, random_ranges_outside_the_region_are_refused) {
  std::mt19937_64 random(1);
  const auto number = [&] { return random() >> (random() % 64); };
  for (int round = 0; round < 20000; ++round) {
    const auto whole = region(number() >> 1U, number() >> 1U);
    const std::uint64_t offset = number();
    const std::uint64_t count = number();
    const auto seen = remote_array<point>::of(whole, offset, count);
    const bool fits = offset <= whole.length() && count <= (whole.length() - offset) / 16;
    ASSERT_EQ(seen.has_value(), fits);
    if (!fits) continue;
    ASSERT_EQ(seen->region(), whole.slice(offset, count * 16));
    const std::uint64_t first = number();
    const std::uint64_t wanted = number();
    const auto some = seen->elements(first, wanted);
    ASSERT_EQ(some.has_value(), first <= count && wanted <= count - first);
    if (!some) continue;
    ASSERT_EQ(some->region(), whole.slice(offset + first * 16, wanted * 16));
  }
}

TEST(remote_view, null_member_pointer_stops_the_program) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto view = remote_view<point>::of(region(16)).value();
  std::uint32_t point::* const nothing = nullptr;
  EXPECT_DEATH(static_cast<void>(view.field(nothing)), "the member pointer of a field is null");
}

TEST(remote_view, requests_reach_the_field) {
  test::loopback pair;
  const auto there = pair.memory(4096);
  const auto here = pair.memory(64);
  const auto many = remote_array<table>::of(there.remote(), 128, 3).value();
  const std::uint64_t value = 0x1122334455667788;
  std::memcpy(here.bytes().data(), &value, sizeof value);
  auto batch = pair.a().queue.start_send();
  const auto field = many.element(2)->field(&table::points).field(1, &point::y).value();
  batch.write({.signaled = true}, here.slice(0, sizeof value), field.region());
  batch.submit().value();
  test::take(pair.a().sends, 1).at(0).result().value();
  table tables[3];
  std::memcpy(&tables, there.bytes().data() + 128, sizeof tables);
  EXPECT_EQ(tables[2].points[1].y, value);
  EXPECT_EQ(tables[2].points[1].x, 0U);
}

TEST(remote_view, views_are_keys_that_differ_by_their_regions) {
  const auto view = [](std::uint64_t offset) {
    return remote_view<point>::of(region(64), offset).value();
  };
  test::expect_different_keys<remote_view<point>>({view(0), view(1), view(16)});
  const auto points = remote_array<point>::of(region(64)).value();
  test::expect_different_keys<remote_array<point>>(
      {points, points.elements(0, 1).value(), points.elements(1, 1).value()});
}

}  // namespace
}  // namespace verbena
