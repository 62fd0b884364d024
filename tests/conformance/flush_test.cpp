// SPDX-License-Identifier: MIT
// The error state: all outstanding requests are flushed in the order of posting.
#include <gtest/gtest.h>

#include <optional>

#include "tests/conformance/traffic.hpp"

namespace verbena::conformance {
namespace {

class error_state : public data_test {
 protected:
  void open() {
    link_options options;
    options.initiator.reliability.rnr_retry_count = options.target.reliability.rnr_retry_count = 7;
    data_test::open(options);
    if (IsSkipped()) return;
    memory.emplace(connection().memory(4096));
  }
  static void fail(side& which) {
    which.queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  }
  static void expect_flushed(const completion_queue& queue, std::uint64_t first,
                             std::size_t count) {
    const auto done = take(queue, count, 2s);
    for (std::size_t i = 0; i < done.size(); ++i) {
      EXPECT_EQ(done[i].status(), completion_status::flushed) << to_string(done[i]);
      EXPECT_EQ(done[i].id(), first + i);
    }
    EXPECT_TRUE(is_empty(queue));
  }

  std::optional<memory_region> memory;
};
INSTANTIATE_TEST_SUITE_P(rc, error_state, ::testing::ValuesIn(variants_with_two_ends()), name_of);

TEST_P(error_state, receives_are_flushed_in_order) {
  VERBENA_OPEN();
  for (std::uint64_t i = 0; i < 5; ++i) receive(10 + i, memory->slice());
  fail(target());
  expect_flushed(target().receives, 10, 5);
}

TEST_P(error_state, sends_are_flushed_in_order_including_unsignaled_ones) {
  VERBENA_NEEDS(!is_iwarp(), "a message of iWARP that finds no receive ends the connection");
  VERBENA_OPEN();
  post([&](auto& batch) {
    for (std::uint64_t i = 0; i < 6; ++i)
      batch.send({.id = 20 + i, .signaled = i % 2 == 0}, memory->slice(0, 64));
  });
  fail(initiator());
  expect_flushed(initiator().sends, 20, 6);
}

// parity: ibverbs-tests-75
TEST_P(error_state, query_after_failure_returns_error_state) {
  VERBENA_OPEN();
  fail(initiator());
  EXPECT_TRUE(reaches(initiator().queue, queue_pair_state::error));
}

TEST_P(error_state, receives_posted_in_error_state_are_flushed) {
  VERBENA_OPEN();
  fail(initiator());
  initiator().queue.post_receive({.id = 1}, memory->slice()).value();
  initiator().queue.post_receive({.id = 2}, memory->slice()).value();
  expect_flushed(initiator().receives, 1, 2);
}

TEST_P(error_state, sends_posted_in_error_state_are_flushed) {
  VERBENA_OPEN();
  fail(initiator());
  post([&](auto& batch) {
    batch.send({.id = 3}, memory->slice(0, 8));
    batch.send({.id = 4, .signaled = true}, memory->slice(0, 8));
  });
  expect_flushed(initiator().sends, 3, 2);
}

TEST_P(error_state, target_in_error_state_fails_the_requests_of_the_initiator) {
  VERBENA_NEEDS(!is_iwarp(), "the connection manager closes both ends of a connection of iWARP");
  link_options options;
  options.initiator.reliability.retry_count = 1;
  options.initiator.reliability.timeout = ack_timeout::at_least(4ms);
  data_test::open(options);
  if (IsSkipped()) return;
  memory.emplace(connection().memory(4096));
  fail(target());
  post([&](auto& batch) {
    batch.write({.id = 1, .signaled = true}, memory->slice(0, 8), memory->remote().slice(64, 8));
    batch.write({.id = 2, .signaled = true}, memory->slice(0, 8), memory->remote().slice(64, 8));
  });
  const auto done = take(initiator().sends, 2);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status(), completion_status::retries_exceeded) << to_string(done[0]);
  EXPECT_EQ(done[1].status(), completion_status::flushed) << to_string(done[1]);
}

TEST_P(error_state, reset_leaves_the_error_state) {
  VERBENA_NEEDS(!is_iwarp(), "a queue pair of iWARP is used once");
  VERBENA_OPEN();
  fail(initiator());
  initiator().queue.reset().value();
  EXPECT_EQ(initiator().queue.current_state().value(), queue_pair_state::reset);
}

}  // namespace
}  // namespace verbena::conformance
