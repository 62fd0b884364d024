// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/packet_faults.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "softdev/wire/socket/late_packets.hpp"

namespace verbena::softdev::wire {
namespace {

std::string fault_of(std::string_view text) {
  std::string wrong;
  EXPECT_FALSE(parse_faults(text, wrong)) << text;
  return wrong;
}
std::optional<fault_rates> rates_of(std::string_view text) {
  std::string wrong;
  return parse_faults(text, wrong);
}

TEST(packet_faults, setting_has_rates_a_delay_and_a_seed) {
  EXPECT_EQ(
      rates_of("loss=1%,duplicate=0.1%,reorder=2.5%,corrupt=0.0001%,mark=3%,delay=1.5ms,seed=7"),
      (fault_rates{.loss = 10'000,
                   .duplicate = 1'000,
                   .reorder = 25'000,
                   .corrupt = 1,
                   .mark = 30'000,
                   .delay = 1'500'000,
                   .seed = 7}));
  EXPECT_EQ(rates_of(""), fault_rates{});
  EXPECT_EQ(rates_of("loss=100%"), (fault_rates{.loss = 1'000'000}));
  EXPECT_EQ(rates_of("delay=200us"), (fault_rates{.delay = 200'000}));
  EXPECT_EQ(rates_of("delay=10s,"), (fault_rates{.delay = 10'000'000'000}));
  EXPECT_FALSE(rates_of("seed=3")->any());
}

TEST(packet_faults, wrong_part_is_named_with_what_it_must_be) {
  const std::string rate = " must be a percentage from 0% to 100%, as 0.5%";
  for (const char* text : {"loss=1", "loss=", "loss", "loss=%", "loss=101%", "loss=-1%", "loss=1.%",
                           "loss=.5%", "loss=0.00001%", "loss=1e1%", "loss=99999999999%"})
    EXPECT_EQ(fault_of(text), std::string("'").append(text).append("'").append(rate));
  EXPECT_EQ(fault_of("seed=1,delay=3"),
            "'delay=3' must be a time with unit up to 10s, as 200us or 2ms");
  EXPECT_EQ(fault_of("delay=11s"),
            "'delay=11s' must be a time with unit up to 10s, as 200us or 2ms");
  EXPECT_EQ(fault_of("seed=x"), "'seed=x' must be a number of up to 64 bits");
  EXPECT_EQ(fault_of("los=1%"),
            "'los=1%' must be loss=, duplicate=, reorder=, corrupt=, mark=, delay= or seed=VALUE");
}

std::vector<packet_faults::decision> first_decisions(const fault_rates& rates, int count) {
  packet_faults faults(rates);
  std::vector<packet_faults::decision> all;
  all.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) all.push_back(faults.next());
  return all;
}

TEST(packet_faults, seed_determines_the_faults) {
  const fault_rates rates{.loss = 100'000, .duplicate = 100'000, .corrupt = 100'000, .seed = 5};
  fault_rates other = rates;
  other.seed = 6;
  EXPECT_EQ(first_decisions(rates, 1000), first_decisions(rates, 1000));
  EXPECT_NE(first_decisions(rates, 1000), first_decisions(other, 1000));
}

TEST(packet_faults, faults_are_as_frequent_as_their_rates) {
  constexpr int count = 100'000;
  std::array<int, 5> seen{};
  for (const auto& each : first_decisions({.loss = 10'000,
                                           .duplicate = 20'000,
                                           .reorder = 30'000,
                                           .corrupt = 40'000,
                                           .mark = 50'000,
                                           .delay = 7},
                                          count)) {
    seen[0] += each.lost ? 1 : 0;
    seen[1] += each.duplicated ? 1 : 0;
    seen[2] += each.delay > 7 ? 1 : 0;
    seen[3] += each.corrupted ? 1 : 0;
    seen[4] += each.marked ? 1 : 0;
    EXPECT_TRUE(each.lost || each.delay >= 7);
  }
  for (int i = 0; i < 5; ++i)
    EXPECT_NEAR(seen[static_cast<std::size_t>(i)], (i + 1) * 1000, 300) << i;
}

TEST(packet_faults, loss_does_not_change_the_other_faults) {
  const auto without = first_decisions({.duplicate = 200'000, .corrupt = 200'000}, 1000);
  const auto with =
      first_decisions({.loss = 500'000, .duplicate = 200'000, .corrupt = 200'000}, 1000);
  for (std::size_t i = 0; i < with.size(); ++i)
    EXPECT_TRUE(with[i].lost || with[i] == without[i]) << i;
}

TEST(late_packets, packets_that_are_not_taken_remain_in_their_order) {
  late_packets late;
  for (int i = 0; i < 4; ++i) {
    const std::array<std::byte, 1> bytes = {static_cast<std::byte>(i)};
    EXPECT_EQ(late.keep({.ends = {}, .bytes = bytes}, 5).size(), 1U);
  }
  std::vector<int> seen;
  const auto take_even = [&](const received_datagram& from) {
    seen.push_back(std::to_integer<int>(from.bytes[0]));
    return seen.back() % 2 == 0;
  };
  late.retry(take_even);
  late.retry(take_even);
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 1, 3}));
  late.retry([](const received_datagram&) { return true; });
  EXPECT_TRUE(late.empty());
}

TEST(late_packets, packets_come_in_the_order_of_their_times) {
  late_packets late;
  std::vector<std::byte> bytes(20);
  const auto keep = [&](int number, time_ns due) {
    bytes[0] = static_cast<std::byte>(number);
    return late.keep({.ends = {}, .bytes = bytes}, due).size() == bytes.size();
  };
  const auto release = [&](time_ns now) {
    std::vector<int> numbers;
    late.release(now, [&](const received_datagram& from) {
      EXPECT_EQ(from.bytes.size(), bytes.size());
      numbers.push_back(std::to_integer<int>(from.bytes[0]));
    });
    return numbers;
  };
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_TRUE(keep(1, 30) && keep(2, 10) && keep(3, 20) && keep(4, 10));
    EXPECT_EQ(release(9), std::vector<int>{});
    EXPECT_EQ(release(10), (std::vector<int>{2, 4}));
    EXPECT_TRUE(keep(5, 20));
    EXPECT_EQ(release(99), (std::vector<int>{3, 5, 1}));
    EXPECT_TRUE(late.empty());
  }
  for (std::size_t i = 0; i < late_packets::capacity; ++i) EXPECT_TRUE(keep(1, 5));
  EXPECT_FALSE(keep(1, 5));
  EXPECT_EQ(release(5).size(), late_packets::capacity);
  bytes.resize(max_datagram_bytes + 1);
  EXPECT_FALSE(keep(1, 5)) << "too long";
}

}  // namespace
}  // namespace verbena::softdev::wire
