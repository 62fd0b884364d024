// SPDX-License-Identifier: MIT
// Flags of send requests and inline data.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "tests/conformance/traffic.hpp"

namespace verbena::conformance {
namespace {

class send_flags : public data_test {
 protected:
  void open(std::uint32_t inline_bytes = 0) {
    link_options options;
    options.initiator.queues.max_inline_data = options.target.queues.max_inline_data = inline_bytes;
    data_test::open(options);
    if (IsSkipped()) return;
    source.emplace(connection().memory(8192));
    sink.emplace(connection().memory(8192));
    fill(source->bytes(), 21);
  }
  void expect_exchanged(std::span<const std::byte> bytes) {
    const completion arrived = received();
    ASSERT_TRUE(arrived.ok()) << to_string(arrived);
    EXPECT_EQ(arrived.byte_length(), bytes.size());
    EXPECT_TRUE(holds(*sink, 0, bytes));
    const completion done = sent();
    EXPECT_TRUE(done.ok()) << to_string(done);
  }

  std::optional<memory_region> source;
  std::optional<memory_region> sink;
};
INSTANTIATE_TEST_SUITE_P(rc, send_flags, ::testing::ValuesIn(every_variant()), name_of);

// parity: ibverbs-tests-62
TEST_P(send_flags, fenced_and_solicited_messages_arrive) {
  VERBENA_OPEN();
  for (const auto flags : {send_request{.signaled = true, .fenced = true},
                           send_request{.signaled = true, .solicited = true},
                           send_request{.signaled = true, .fenced = true, .solicited = true}}) {
    receive(1, sink->slice());
    post([&](auto& batch) { batch.send(flags, source->slice(0, 500)); });
    expect_exchanged(source->bytes().first(500));
  }
}

// parity: ibverbs-tests-68, ibverbs-238
TEST_P(send_flags, inline_data_can_be_overwritten_after_the_post) {
  VERBENA_OPEN(64);
  auto bytes = pattern(64, 22);
  const auto expected = bytes;
  receive(1, sink->slice());
  post([&](auto& batch) { batch.send({.signaled = true}, inline_data(bytes)); });
  std::ranges::fill(bytes, std::byte{0});
  expect_exchanged(expected);
}

// parity: rrddmma-84
TEST_P(send_flags, inline_messages_of_all_sizes_arrive) {
  VERBENA_OPEN(64);
  for (const std::size_t size : {0U, 1U, 3U, 4U, 13U, 63U}) {
    const auto bytes = pattern(size, static_cast<std::uint32_t>(size));
    receive(1, sink->slice());
    post([&](auto& batch) { batch.send({.signaled = true}, inline_data(bytes)); });
    expect_exchanged(bytes);
  }
}

// parity: ibverbs-tests-69, ibverbs-239
TEST_P(send_flags, inline_sges_are_gathered_by_send) {
  VERBENA_OPEN(64);
  const auto bytes = pattern(40, 23);
  const std::array pieces{inline_data(std::span(bytes).first(5)),
                          inline_data(std::span(bytes).subspan(5, 20)),
                          inline_data(std::span(bytes).subspan(25))};
  receive(1, sink->slice());
  post([&](auto& batch) { batch.send({.signaled = true}, pieces); });
  expect_exchanged(bytes);
}

// parity: ibverbs-tests-68
TEST_P(send_flags, inline_write_arrives) {
  VERBENA_OPEN(64);
  const auto bytes = pattern(33, 24);
  post([&](auto& batch) {
    batch.write({.signaled = true}, inline_data(bytes), sink->remote().slice(7, 33));
  });
  ASSERT_TRUE(sent().ok());
  EXPECT_TRUE(holds(*sink, 7, bytes));
  EXPECT_TRUE(holds(*sink, 0, std::vector<std::byte>(7)));
  EXPECT_TRUE(holds(*sink, 40, std::vector<std::byte>(7)));
}

TEST_P(send_flags, inline_sges_are_gathered_by_write) {
  VERBENA_OPEN(64);
  const auto bytes = pattern(50, 25);
  const std::array pieces{inline_data(std::span(bytes).first(20)),
                          inline_data(std::span(bytes).subspan(20))};
  post([&](auto& batch) { batch.write({.signaled = true}, pieces, sink->remote().slice(0, 50)); });
  ASSERT_TRUE(sent().ok());
  EXPECT_TRUE(holds(*sink, 0, bytes));
}

TEST_P(send_flags, inline_data_is_sent_with_immediate_data) {
  VERBENA_OPEN(64);
  VERBENA_NEEDS(!is_iwarp(), "iWARP has no immediate data");
  const auto bytes = pattern(11, 26);
  receive(1, sink->slice());
  post([&](auto& batch) { batch.send_with_immediate({.signaled = true}, 99, inline_data(bytes)); });
  const completion arrived = received();
  ASSERT_TRUE(arrived.ok()) << to_string(arrived);
  EXPECT_EQ(arrived.immediate(), 99U);
  EXPECT_TRUE(holds(*sink, 0, bytes));
  EXPECT_TRUE(sent().ok());
}

// parity: ibverbs-174, ibverbs-241
TEST_P(send_flags, inline_data_beyond_the_granted_limit_is_refused) {
  VERBENA_OPEN(64);
  const std::uint32_t granted = initiator().queue.capabilities().max_inline_data;
  VERBENA_NEEDS(granted != 0, "the queue pair came from elsewhere and does not know its grants");
  ASSERT_GE(granted, 64U);
  const auto bytes = pattern(granted + 1, 27);
  receive(1, sink->slice());
  const post_status refused = post(initiator(), [&](auto& batch) {
    batch.send({.id = 1, .signaled = true}, inline_data(bytes));
  });
  EXPECT_FALSE(refused.has_value());
  EXPECT_EQ(refused.accepted_before_failure(), 0U);
  post([&](auto& batch) {
    batch.send({.id = 2, .signaled = true}, inline_data(std::span(bytes).first(granted)));
  });
  expect_exchanged(std::span(bytes).first(granted));
}

}  // namespace
}  // namespace verbena::conformance
