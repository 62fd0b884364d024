// SPDX-License-Identifier: MIT
#include "verbena/net/group.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <latch>
#include <optional>
#include <utility>
#include <vector>

#include "tests/unit/net/ranks.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/memory/buffer_pool.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

// parity: ibverbs-rs-68, ibverbs-rs-69, rrddmma-115
TEST(group, has_a_channel_to_every_rank_and_to_itself) {
  in_group(4, [&](joined_rank& here) {
    auto memory = here.pd.allocate(4096, access::local_write).value();
    EXPECT_EQ(here.group.size(), 4U);
    EXPECT_EQ(here.group.channels().size(), 4U);
    memory.bytes()[0] = std::byte(here.group.rank());
    std::vector<net::peer_send> sends;
    sends.reserve(4);
    for (std::uint32_t to = 0; to < 4; ++to)
      sends.push_back({.rank = to, .data = source(memory, 0, 1)});
    auto pool = buffer_pool::create(here.pd, {}).value();
    std::vector<pending_operation> receives;
    receives.reserve(4);
    for (std::uint32_t from = 0; from < 4; ++from)
      receives.push_back(here.group[from].post_receive(*pool.take(64)));
    EXPECT_TRUE(here.group.channels().scatter(sends));
    for (std::uint32_t from = 0; from < 4; ++from) {
      ASSERT_TRUE(receives[from].wait());
      EXPECT_EQ(receives[from].take_buffer().bytes()[0], std::byte(from));
    }
  });
}

TEST(group, of_one_rank_works) {
  in_group(1, [&](joined_rank& here) {
    EXPECT_EQ(here.group.rank(), 0U);
    EXPECT_TRUE(here.group.barrier(test_deadline()));
  });
}

// parity: ibverbs-rs-70
TEST(group, rank_0_opens_the_store) {
  bringup::address place{.host = "127.0.0.1"};
  place.port = net::store::open(place).value().local_address().port;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here({.rank = rank, .size = 3, .store = place});
    EXPECT_TRUE(here.group.barrier(test_deadline()));
  });
}

TEST(group, port_0_is_refused_unless_the_group_has_one_rank) {
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  net::membership who{.rank = 0, .size = 2, .store = {.host = "127.0.0.1"}};
  expect_error(net::group::join(pd, who, test_deadline()),
               "the port of the store at 127.0.0.1 is 0, so the other ranks cannot find it");
  who.size = 1;
  EXPECT_TRUE(net::group::join(pd, who, test_deadline()));
}

// parity: ibverbs-rs-74
TEST(group, exchanged_regions_are_readable) {
  in_group(3, [&](joined_rank& here) {
    auto memory = here.pd.allocate(4096, access::local_write | access::remote_read).value();
    memory.bytes()[0] = std::byte(here.group.rank() + 1);
    const auto tables = here.group.exchange("table", memory.remote(), test_deadline()).value();
    ASSERT_EQ(tables.size(), 3U);
    auto page = here.pd.allocate(4096, access::local_write).value();
    for (const auto& each : tables) {
      ASSERT_TRUE(here.group[each.rank].read(sink(page, 0, 1), each.region));
      EXPECT_EQ(page.bytes()[0], std::byte(each.rank + 1));
    }
    EXPECT_TRUE(here.group.barrier(test_deadline()));  // before `memory` is deregistered
  });
}

TEST(group, bytes_that_are_no_region_name_their_rank) {
  in_group(2, [&](joined_rank& here) {
    if (here.group.rank() == 1) {
      EXPECT_TRUE(here.group.exchange("table", bytes_of("no region"), test_deadline()));
    } else {
      expect_error(here.group.exchange("table", remote_region(), test_deadline()),
                   "received from rank 1");
    }
  });
}

TEST(group, join_without_a_rank_fails_and_names_it) {
  const test_store store;
  for_each_rank(3, [&](std::uint32_t rank) {
    if (rank == 1) return;
    const auto device = testing_support::open_soft();
    const auto pd = device.allocate_pd().value();
    const auto failed = net::group::join(pd, store.member(rank, 3), deadline::after(700ms));
    expect_error(failed, "rank 1 had not called exchange(\"verbena: endpoints\")");
  });
}

TEST(group, options_apply_to_the_channels) {
  in_group(2,
           [&](joined_rank& here) {
             const auto options = here.group[1 - here.group.rank()].query().value();
             EXPECT_EQ(options.queues.max_send_wr, 5U);
             EXPECT_TRUE(here.group.channels().hub().has_events());
           },
           {.channels = {.queues = {.max_send_wr = 5}}, .hub = {.events = true}});
}

TEST(group, invalid_membership_is_refused) {
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  expect_error(
      net::group::join(pd, {.rank = 2, .size = 2, .store = {.host = "x"}}, test_deadline()),
      "rank 2 is not less than the size 2");
}

// Rank 1 posts no receive, so the send of rank 0 stays in flight, and so does the read of the board
// of rank 1 that the failed barrier has posted behind the send.
TEST(group, end_after_a_failed_barrier_ends_operations_that_outlive_it) {
  const test_store store;
  std::latch ended(1);
  for_each_rank(2, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 2));
    if (rank == 1) return ended.wait();
    auto pool = buffer_pool::create(here.pd, {}).value();
    std::optional<pending_operation> sent(here.group[1].post_send(*pool.take(64)));
    expect_error(here.group.barrier(deadline::after(50ms)), "rank 1 had not called barrier()");
    {
      const auto destroyed = std::move(here.group);
    }
    // Occupies the freed memory of the group, so that the test fails without a sanitizer too.
    std::vector<std::vector<std::byte>> blocks;
    for (std::size_t bytes = 32; bytes <= 1024; bytes += 16)
      for (int each = 0; each < 10; ++each) blocks.emplace_back(bytes);
    const operation_result* const result = sent->poll();
    ASSERT_NE(result, nullptr);
    EXPECT_FALSE(*result);
    sent.reset();
    for (const auto& each : blocks)
      EXPECT_EQ(std::ranges::count(each, std::byte{}), std::ssize(each));
    ended.count_down();
  });
}

TEST(group_death, moved_from_group_stops_the_program) {
  const test_store store;
  joined_rank here(store.member(0, 1));
  const auto taken = std::move(here.group);
  EXPECT_DEATH(static_cast<void>(here.group.rank()), "a moved-from group was used");
}

}  // namespace
}  // namespace verbena::test
