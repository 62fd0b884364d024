// SPDX-License-Identifier: MIT
// Messages without a receive wait for one, or fail after the RNR retries.
#include <gtest/gtest.h>

#include <optional>

#include "tests/conformance/traffic.hpp"

namespace verbena::conformance {
namespace {

class receiver_not_ready : public data_test {
 protected:
  void open(std::uint8_t retries) {
    VERBENA_NEEDS(!is_iwarp(), "iWARP has no receiver-not-ready: a message needs a receive");
    VERBENA_NEEDS(!is_efa(), "an EFA has no connected queue pairs");
    link_options options;
    options.initiator.reliability.rnr_retry_count = options.target.reliability.rnr_retry_count =
        retries;
    options.initiator.reliability.min_rnr_timer = options.target.reliability.min_rnr_timer =
        rnr_timer::at_least(1ms);
    data_test::open(options);
    if (IsSkipped()) return;
    source.emplace(connection().memory(4096));
    sink.emplace(connection().memory(4096));
    fill(source->bytes(), 41);
  }
  void expect_arrived(std::uint64_t id) {
    const completion arrived = received();
    ASSERT_TRUE(arrived.ok()) << to_string(arrived);
    EXPECT_EQ(arrived.id(), id);
    EXPECT_TRUE(holds(*sink, 0, source->bytes().first(3000)));
  }

  std::optional<memory_region> source;
  std::optional<memory_region> sink;
};
INSTANTIATE_TEST_SUITE_P(rc, receiver_not_ready, ::testing::ValuesIn(variants_with_two_ends()),
                         name_of);

TEST_P(receiver_not_ready, send_fails_when_rnr_retries_are_exhausted) {
  VERBENA_OPEN(2);
  post([&](auto& batch) {
    batch.send({.id = 1, .signaled = true}, source->slice(0, 3000));
    batch.send({.id = 2}, source->slice(0, 10));
  });
  const auto done = take(initiator().sends, 2);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].id(), 1U);
  EXPECT_EQ(done[0].status(), completion_status::rnr_retries_exceeded) << to_string(done[0]);
  EXPECT_EQ(done[1].id(), 2U);
  EXPECT_EQ(done[1].status(), completion_status::flushed) << to_string(done[1]);
  EXPECT_TRUE(reaches(initiator().queue, queue_pair_state::error));
  EXPECT_EQ(target().queue.current_state().value(), queue_pair_state::ready_to_send)
      << "the receiver must remain usable";
}

TEST_P(receiver_not_ready, send_with_rnr_retry_0_fails_immediately) {
  VERBENA_OPEN(0);
  post([&](auto& batch) { batch.send({.id = 1, .signaled = true}, source->slice(0, 10)); });
  const completion done = sent();
  EXPECT_EQ(done.status(), completion_status::rnr_retries_exceeded) << to_string(done);
}

TEST_P(receiver_not_ready, send_waits_for_its_receive) {
  VERBENA_OPEN(7);
  post([&](auto& batch) { batch.send({.id = 1, .signaled = true}, source->slice(0, 3000)); });
  EXPECT_TRUE(stays_empty(initiator().sends));
  receive(9, sink->slice());
  expect_arrived(9);
  EXPECT_TRUE(sent().ok());
}

TEST_P(receiver_not_ready, write_behind_a_waiting_send_waits) {
  VERBENA_OPEN(7);
  const auto board = connection().memory(4096);
  post([&](auto& batch) {
    batch.send({.id = 1, .signaled = true}, source->slice(0, 3000));
    batch.write({.id = 2, .signaled = true}, source->slice(0, 64), board.remote());
  });
  EXPECT_TRUE(stays_empty(initiator().sends));
  EXPECT_TRUE(holds(board, 0, std::vector<std::byte>(64)));
  receive(9, sink->slice());
  expect_arrived(9);
  EXPECT_EQ(sent().id(), 1U);
  EXPECT_EQ(sent().id(), 2U);
  EXPECT_TRUE(holds(board, 0, source->bytes().first(64)));
}

TEST_P(receiver_not_ready, write_with_immediate_waits_for_its_receive) {
  VERBENA_OPEN(7);
  const auto board = connection().memory(4096);
  post([&](auto& batch) {
    batch.write_with_immediate({.id = 1, .signaled = true}, 4, source->slice(0, 3000),
                               board.remote());
  });
  EXPECT_TRUE(stays_empty(initiator().sends));
  receive(9, sink->slice());
  const completion arrived = received();
  ASSERT_TRUE(arrived.ok()) << to_string(arrived);
  EXPECT_EQ(arrived.immediate(), 4U);
  EXPECT_TRUE(sent().ok());
  EXPECT_TRUE(holds(board, 0, source->bytes().first(3000)));
}

}  // namespace
}  // namespace verbena::conformance
