// SPDX-License-Identifier: MIT
// Full queues and requests beyond the limits: the post fails, and accepted requests are not lost.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <optional>
#include <span>

#include "tests/conformance/traffic.hpp"

namespace verbena::conformance {
namespace {

class limits : public data_test {
 protected:
  void open(const link_options& options = {}) {
    data_test::open(options);
    if (IsSkipped()) return;
    memory.emplace(connection().memory(8192));
  }
  [[nodiscard]] post_status post_one_message(std::uint64_t id) {
    return post(initiator(), [&](auto& batch) {
      batch.send({.id = id, .signaled = true}, memory->slice(0, 8));
    });
  }

  std::optional<memory_region> memory;
};
INSTANTIATE_TEST_SUITE_P(rc, limits, ::testing::ValuesIn(variants_with_two_ends()), name_of);

// Sends without a receive at the peer remain in the send queue.
// parity: ibverbs-253
TEST_P(limits, full_send_queue_returns_enomem_until_completions_are_polled) {
  VERBENA_NEEDS(!is_iwarp(), "a message of iWARP does not wait for a receive");
  link_options options;
  options.initiator.queues.max_send_wr = 8;
  options.initiator.reliability.rnr_retry_count = 7;
  options.target.queues.max_recv_wr = 512;
  options.target.reliability.min_rnr_timer = rnr_timer::at_least(1ms);
  options.completions = 1024;
  VERBENA_OPEN(options);
  std::uint64_t accepted = 0;
  post_status last;
  while (accepted < 500 && (last = post_one_message(accepted)).has_value()) ++accepted;
  ASSERT_FALSE(last.has_value()) << "a queue of 8 entries accepted 500 requests";
  EXPECT_EQ(last.code(), ENOMEM) << last.error().message();
  EXPECT_EQ(last.accepted_before_failure(), 0U);
  EXPECT_GE(accepted, 8U);
  EXPECT_TRUE(is_empty(initiator().sends));
  for (std::uint64_t i = 0; i <= accepted; ++i) receive(i, memory->slice(4096, 8));
  const auto done = take(initiator().sends, accepted);
  for (std::size_t i = 0; i < done.size(); ++i) {
    ASSERT_TRUE(done[i].ok()) << to_string(done[i]);
    ASSERT_EQ(done[i].id(), i);
  }
  EXPECT_TRUE(is_empty(initiator().sends));
  post_one_message(7777).value();
  EXPECT_EQ(sent().id(), 7777U);
  EXPECT_EQ(take(target().receives, accepted + 1).size(), accepted + 1);
}

TEST_P(limits, full_receive_queue_returns_enomem_until_completions_are_polled) {
  link_options options;
  options.target.queues.max_recv_wr = 8;
  VERBENA_OPEN(options);
  std::uint64_t accepted = 0;
  post_status last;
  while (accepted < 4000 &&
         (last = target().queue.post_receive({.id = accepted}, memory->slice(0, 64))).has_value())
    ++accepted;
  ASSERT_FALSE(last.has_value()) << "a queue of 8 entries accepted 4000 requests";
  EXPECT_EQ(last.code(), ENOMEM) << last.error().message();
  EXPECT_GE(accepted, 8U);
  post([&](auto& batch) { batch.send({.signaled = true}, memory->slice(4096, 8)); });
  EXPECT_EQ(received().id(), 0U);
  EXPECT_TRUE(sent().ok());
  receive(8888, memory->slice(0, 64));
}

// parity: ibverbs-256
TEST_P(limits, oversized_receive_batch_reports_how_many_were_posted) {
  link_options options;
  options.target.queues.max_recv_wr = 8;
  VERBENA_OPEN(options);
  std::uint32_t accepted = 0;
  post_status last;
  do {
    auto batch = target().queue.start_receive();
    for (std::uint64_t i = 0; i < 7; ++i) batch.receive({.id = i}, memory->slice(0, 8));
    last = batch.submit();
    accepted += last.has_value() ? 7 : last.accepted_before_failure();
  } while (last.has_value() && accepted < 4000);
  ASSERT_FALSE(last.has_value());
  EXPECT_EQ(last.code(), ENOMEM) << last.error().message();
  EXPECT_LT(last.accepted_before_failure(), 7U);
  target().queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  EXPECT_EQ(take(target().receives, accepted).size(), accepted);
  EXPECT_TRUE(stays_empty(target().receives)) << "a rejected request was posted";
}

// parity: ibverbs-173
TEST_P(limits, more_sges_than_granted_are_refused) {
  VERBENA_OPEN();
  const std::uint32_t granted = initiator().queue.capabilities().max_send_sge;
  VERBENA_NEEDS(granted != 0, "the queue pair came from elsewhere and does not know its grants");
  const std::vector<local_slice> slices(granted + 1, memory->slice(0, 8));
  const post_status refused = post(initiator(), [&](auto& batch) {
    batch.write({.id = 1, .signaled = true}, slices, memory->remote().slice(4096));
  });
  EXPECT_FALSE(refused.has_value());
  EXPECT_EQ(refused.accepted_before_failure(), 0U);
  const auto receive_slices =
      std::vector<local_slice>(target().queue.capabilities().max_recv_sge + 1, memory->slice(0, 8));
  EXPECT_FALSE(target().queue.post_receive({.id = 1}, receive_slices).has_value());
}

// parity: ibverbs-173
TEST_P(limits, granted_number_of_sges_is_accepted) {
  VERBENA_OPEN();
  fill(memory->bytes().first(64), 51);
  const std::vector<local_slice> slices(4, memory->slice(0, 8));
  post([&](auto& batch) {
    batch.write({.signaled = true}, slices, memory->remote().slice(4096, 32));
  });
  ASSERT_TRUE(sent().ok());
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(holds(*memory, 4096 + 8 * i, memory->bytes().first(8)));
}

TEST_P(limits, post_before_ready_state_is_refused) {
  VERBENA_NEEDS(!is_iwarp(), "queue pairs of iWARP are connected by the connection manager");
  VERBENA_OPEN();
  auto prepared = connection()
                      .pd()
                      .create_qp<rc>(initiator().sends, initiator().receives, default_options())
                      .value();
  auto queue = std::move(prepared).into_queue_pair();
  auto batch = queue.start_send();
  batch.send({.id = 1, .signaled = true}, memory->slice(0, 8));
  EXPECT_EQ(batch.submit().code(), EINVAL) << "the queue pair is in RESET";
  EXPECT_EQ(queue.post_receive({.id = 2}, memory->slice(0, 8)).code(), EINVAL);
}

}  // namespace
}  // namespace verbena::conformance
