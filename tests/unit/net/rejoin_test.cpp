// SPDX-License-Identifier: MIT
// group::rejoin() into groups that have not formed. renewal_test.cpp tests groups that have.
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "tests/unit/net/ranks.hpp"
#include "verbena/base/bytes.hpp"

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

TEST_F(rejoin_early, after_a_rank_ended_while_the_group_formed_is_refused) {
  auto first = connect_client(store.member(0, 3));
  std::optional<net::store_client> ends = connect_client(store.member(1, 3));
  ends.reset();
  const auto until = test_deadline();
  while (first.departed().empty()) ASSERT_FALSE(until.expired());
  expect_error(rejoin(1), "the group has not formed yet");
}

TEST_F(rejoin_early, without_a_process_of_the_group_is_refused) {
  expect_error(rejoin(1), "no process of the group is connected to the store");
  // The refused call has left no group with other limits.
  EXPECT_TRUE(net::store_client::connect(store.member(0, 2), test_deadline()));
}

}  // namespace
}  // namespace verbena::test
