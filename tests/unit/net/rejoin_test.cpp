// SPDX-License-Identifier: MIT
// group::rejoin() before the group has formed, and after its last member has left. All other cases
// are in renewal_test.cpp.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <thread>

#include "src/net/store_message.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

class rejoin_early : public ::testing::Test {
 protected:
  [[nodiscard]] result<net::group> rejoin(std::uint32_t rank) const {
    return net::group::rejoin(pd, store.member(rank, 3), test_deadline());
  }

  test_store store;
  context device = testing_support::open_soft();
  protection_domain pd = device.allocate_pd().value();
};

TEST_F(rejoin_early, while_the_group_forms_is_refused_and_does_not_disturb_it) {
  auto first = connect_client(store.member(0, 3));
  const auto refused = rejoin(1);
  expect_error(refused, "the group has not formed yet");
  expect_error(refused, "ranks 1 and 2 are not connected to the store");
  EXPECT_EQ(refused.error().kind(), error_kind::invalid_argument);
  EXPECT_TRUE(first.departed().empty());
  for_each_rank(3, [&](std::uint32_t rank) {
    if (rank != 0) {
      auto other = connect_client(store.member(rank, 3));
      EXPECT_TRUE(other.exchange("x", bytes_of("x"), test_deadline()));
    } else {
      EXPECT_TRUE(first.exchange("x", bytes_of("x"), test_deadline()));
    }
  });
}

// The list of missing ranks is longer than a greeting.
TEST_F(rejoin_early, while_a_large_group_forms_is_refused) {
  constexpr std::uint32_t size = 600;
  const auto first = connect_client(store.member(0, size));
  for (const std::uint32_t rank : {1U, size - 1})
    expect_error(net::group::rejoin(pd, store.member(rank, size), test_deadline()),
                 "the group has not formed yet");
}

TEST_F(rejoin_early, after_a_rank_ended_while_the_group_formed_is_refused) {
  auto first = connect_client(store.member(0, 3));
  std::optional<net::store_client> ends = connect_client(store.member(1, 3));
  ends.reset();
  const auto until = test_deadline();
  while (first.departed().empty()) ASSERT_FALSE(until.expired());
  expect_error(rejoin(1), "the group has not formed yet");
}

TEST_F(rejoin_early, without_a_process_of_the_group_is_refused) {
  expect_error(rejoin(1), "no member of the group is connected to the store");
  // The refused call has left no group with other limits.
  EXPECT_TRUE(net::store_client::connect(store.member(0, 2), test_deadline()));
}

/// A group that has formed, of which the members have left.
class rejoin_late : public rejoin_early {
 protected:
  rejoin_late() {
    for (const std::uint32_t rank : {0U, 1U, 2U})
      ranks[rank] = connect_client(store.member(rank, 3));
    for_each_rank(3, [&](std::uint32_t rank) {
      EXPECT_TRUE(ranks.at(rank)->exchange("x", bytes_of("x"), test_deadline()));
    });
  }
  void wait_for_departed(std::uint32_t rank) {
    while (ranks[0]->departed().empty() || ranks[0]->departed().back() != rank)
      std::this_thread::yield();
  }

  /// Ends rank 2 and connects its new process, which then does nothing.
  [[nodiscard]] bringup::stream rejoin_and_stop() {
    ranks[2].reset();
    wait_for_departed(2);
    auto stopped = bringup::stream::connect(store.address(), test_deadline()).value();
    stopped
        .send(
            encode(net::detail::store_hello{
                .entry = net::detail::store_entry::rejoins, .rank = 2, .size = 3, .name = "test"}),
            test_deadline())
        .value();
    stopped.receive(test_deadline()).value();
    return stopped;
  }
  /// Ends ranks 1 and 0.
  void end_members() {
    ranks[1].reset();
    wait_for_departed(1);
    ranks[0].reset();
  }
  /// Joins a new group of one rank, which has the name of the group of the members.
  void expect_name_is_free() const {
    const auto until = test_deadline();  // the store detects the end of rank 0 with a delay
    auto joined = net::store_client::connect(store.member(0, 1), until);
    while (!joined && !until.expired())
      joined = net::store_client::connect(store.member(0, 1), until);
    EXPECT_TRUE(joined.value().exchange("x", bytes_of("x"), test_deadline()));
  }

  std::array<std::optional<net::store_client>, 3> ranks;
};

TEST_F(rejoin_late, stopped_process_does_not_keep_the_name_of_the_group) {
  const auto stopped = rejoin_and_stop();
  end_members();
  expect_name_is_free();
}

TEST_F(rejoin_late, process_that_stops_while_it_waits_does_not_keep_the_name_of_the_group) {
  auto stopped = rejoin_and_stop();
  stopped
      .send(net::detail::encode_agreement({.number = 1,
                                           .timeout_ms = 60'000,
                                           .kind = net::detail::agreement_kind::waits,
                                           .name = "readmit"},
                                          std::array{std::span<const std::byte>()}),
            test_deadline())
      .value();
  end_members();
  expect_name_is_free();
}

TEST_F(rejoin_late, ends_when_the_last_member_leaves) {
  ranks[2].reset();
  wait_for_departed(2);
  std::thread waits([&] {
    const auto began = deadline::clock::now();
    const auto failed = rejoin(2);
    expect_error(failed, "no member of the group is connected to the store");
    expect_error(failed, "join a new group by group::join()");
    EXPECT_EQ(failed.error().kind(), error_kind::invalid_argument);
    // The store would wait 30 s for readmit().
    EXPECT_LT(deadline::clock::now() - began, 20s);
  });
  while (ranks[0]->returning().empty()) std::this_thread::yield();
  ranks[1].reset();
  wait_for_departed(1);
  ranks[0].reset();
  waits.join();
  // The group has ended, so its ranks can join a new one.
  const auto until = test_deadline();
  while (!net::store_client::connect(store.member(0, 1), until)) ASSERT_FALSE(until.expired());
}

TEST_F(rejoin_late, with_only_waiting_ranks_is_refused) {
  const auto waits = rejoin_and_stop();
  end_members();
  const auto began = deadline::clock::now();
  expect_error(rejoin(1), "no member of the group is connected to the store");
  EXPECT_LT(deadline::clock::now() - began, 20s);
}

}  // namespace
}  // namespace verbena::test
