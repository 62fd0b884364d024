// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/due_ranges.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::softdev::wire {
namespace {

constexpr std::uint32_t total = 100;

response_range part(std::uint32_t begin, std::uint32_t end) { return {begin, end, end * 256}; }

/// Returns the packets that are due, in their order.
std::vector<std::uint32_t> drain(due_ranges& some) {
  std::vector<std::uint32_t> packets;
  while (!some.empty()) {
    packets.push_back(some.next());
    some.step();
  }
  return packets;
}

using list = std::vector<std::uint32_t>;

TEST(due_ranges, parts_follow_the_response_in_the_order_of_their_requests) {
  due_ranges some;
  some.add(part(0, 4), 4);
  for (int i = 0; i < 3; ++i) some.step();
  some.add(part(2, 3), 4);
  some.add(part(0, 1), 4);
  some.step();
  EXPECT_EQ(some.current(), part(2, 3));
  EXPECT_EQ(drain(some), (list{2, 0}));
}

TEST(due_ranges, part_that_will_be_sent_anyway_is_not_added) {
  due_ranges some;
  some.add(part(10, 20), total);
  for (int i = 0; i < 5; ++i) some.step();
  some.add(part(15, 18), total);
  some.add(part(30, 32), total);
  some.add(part(30, 32), total);
  some.add(part(12, 13), total);
  EXPECT_EQ(drain(some), (list{15, 16, 17, 18, 19, 30, 31, 12}));
}

TEST(due_ranges, end_of_the_response_replaces_its_rest_and_no_other_part) {
  due_ranges some;
  some.add(part(0, total), total);
  for (int i = 0; i < 5; ++i) some.step();
  some.add(part(98, total), total);
  EXPECT_EQ(drain(some), (list{98, 99})) << "the peer has not requested the other packets";
  some.add(part(90, 92), total);
  some.add(part(95, 96), total);
  some.add(part(98, total), total);
  some.add(part(97, total), total);
  EXPECT_EQ(drain(some), (list{90, 91, 95, 97, 98, 99}));
}

TEST(due_ranges, end_of_the_response_keeps_the_requested_parts_of_its_rest) {
  due_ranges some;
  some.add(part(0, total), total);
  for (int i = 0; i < 42; ++i) some.step();
  some.add(part(90, 92), total);
  some.add(part(94, 95), total);
  some.add(part(98, total), total);
  EXPECT_EQ(drain(some), (list{90, 91, 92, 93, 94, 98, 99}));
  some.add(part(95, 96), total);
  some.add(part(90, total), total);
  some.add(part(98, total), total);
  EXPECT_EQ(drain(some), (list{95, 98, 99})) << "the rest contained the part";
}

TEST(due_ranges, end_of_the_response_keeps_the_unsent_packets_of_a_requested_part) {
  due_ranges some;
  some.add(part(0, total), total);
  for (int i = 0; i < 42; ++i) some.step();
  some.add(part(43, 47), total);
  for (int i = 0; i < 2; ++i) some.step();
  some.add(part(98, total), total);
  EXPECT_EQ(drain(some), (list{44, 45, 46, 98, 99}));
  some.add(part(0, total), total);
  for (int i = 0; i < 42; ++i) some.step();
  some.add(part(43, 44), total);
  for (int i = 0; i < 2; ++i) some.step();
  some.add(part(98, total), total);
  EXPECT_EQ(drain(some), (list{98, 99})) << "the part was sent";
}

TEST(due_ranges, requested_part_that_reaches_into_the_end_of_the_response_is_sent_once) {
  due_ranges some;
  some.add(part(0, total), total);
  some.add(part(95, 99), total);
  some.add(part(98, total), total);
  some.add(part(99, total), total);
  EXPECT_EQ(drain(some), (list{95, 96, 97, 98, 99}));
}

TEST(due_ranges, part_that_contains_others_replaces_them) {
  due_ranges some;
  some.add(part(10, 12), total);
  some.add(part(20, 22), total);
  some.add(part(30, 32), total);
  some.add(part(10, 25), total);
  const list packets = drain(some);
  EXPECT_EQ(packets.size(), 17U);
  EXPECT_EQ(packets.front(), 30U);
  EXPECT_EQ(packets.back(), 24U);
}

TEST(due_ranges, part_beyond_the_capacity_is_merged_into_the_last) {
  due_ranges some;
  for (std::uint32_t i = 0; i < due_ranges::capacity; ++i) some.add(part(4 * i, 4 * i + 1), total);
  some.add(part(40, 41), total);
  const list packets = drain(some);
  EXPECT_EQ(packets.size(), due_ranges::capacity - 1 + 13);
  EXPECT_EQ(packets[due_ranges::capacity - 1], 28U);
  EXPECT_EQ(packets.back(), 40U);
}

TEST(due_ranges, part_that_is_merged_with_the_end_of_the_response_is_kept) {
  const std::uint32_t last = 4 * static_cast<std::uint32_t>(due_ranges::capacity - 1);
  due_ranges some;
  for (std::uint32_t i = 0; i <= last; i += 4) some.add(part(i, i + 1), total);
  some.add(part(90, total), total);
  some.step();
  some.add(part(98, total), total);
  EXPECT_EQ(drain(some), (list{4, 8, 12, 16, 20, 24, last, 98, 99}));
}

}  // namespace
}  // namespace verbena::softdev::wire
