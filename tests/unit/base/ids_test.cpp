// SPDX-License-Identifier: MIT
#include "verbena/base/ids.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <unordered_set>

namespace verbena {
namespace {

static_assert(sizeof(local_key) == sizeof(std::uint32_t));
static_assert(!std::is_convertible_v<std::uint32_t, local_key>);
static_assert(!std::is_convertible_v<local_key, std::uint32_t>);
static_assert(!std::is_constructible_v<local_key, remote_key>);
static_assert(!std::is_constructible_v<queue_pair_number, packet_sequence_number>);

TEST(strong_id_death, number_out_of_range_stops_the_program) {
  const int large = std::stoi("260");
  EXPECT_DEATH(static_cast<void>(gid_index(large)), "a number is out of the range");
  EXPECT_DEATH(static_cast<void>(port_number(-large)), "a number is out of the range");
  EXPECT_EQ(lid(large).value(), 260U);
}

TEST(strong_id, ids_compare_and_hash_by_value) {
  EXPECT_EQ(remote_key(7).value(), 7U);
  EXPECT_LT(remote_key(7), remote_key(8));
  EXPECT_EQ(port_number().value(), 0);
  const std::unordered_set<remote_key> keys = {remote_key(1), remote_key(2), remote_key(1)};
  EXPECT_EQ(keys.size(), 2U);
}

TEST(id24, largest_value_has_24_bits) {
  EXPECT_EQ(queue_pair_number(0xff'ffff).value(), 0xff'ffffU);
  EXPECT_LT(packet_sequence_number(1), packet_sequence_number(2));
  const std::unordered_set<queue_pair_number> numbers = {queue_pair_number(3),
                                                         queue_pair_number(3)};
  EXPECT_EQ(numbers.size(), 1U);
}

TEST(id24_death, value_with_25_bits_aborts) {
  EXPECT_DEATH(queue_pair_number(0x100'0000),
               "a queue pair number or packet sequence number exceeds 24 bits");
  EXPECT_DEATH(packet_sequence_number(0xffff'ffff), "exceeds 24 bits");
}

}  // namespace
}  // namespace verbena
