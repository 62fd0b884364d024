// SPDX-License-Identifier: MIT
// Completion queues: capacity, order, sharing and overflow.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <span>
#include <vector>

#include "tests/conformance/traffic.hpp"

namespace verbena::conformance {
namespace {

constexpr std::uint32_t beyond_every_limit = 0x7fffffff;

// parity: ibverbs-92, rrddmma-51
TEST(completion_queue, capacity_is_at_least_the_requested_capacity) {
  for (const std::uint32_t asked : {1U, 2U, 16U, 100U, 1000U})
    EXPECT_GE(tested().context.create_cq(asked).value().capacity(), asked);
}

// parity: ibverbs-93, rrddmma-52
TEST(completion_queue, capacity_beyond_the_device_limit_is_refused) {
  const auto refused = tested().context.create_cq(beyond_every_limit);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().code(), 0);
}

// parity: ibverbs-93
TEST(completion_queue, capacity_of_zero_is_refused) { EXPECT_FALSE(tested().context.create_cq(0)); }

// parity: ibverbs-94
TEST(completion_queue, completion_vector_out_of_range_is_refused) {
  EXPECT_FALSE(tested().context.create_cq(
      16, {.completion_vector = tested().context.completion_vectors() + 1}));
}

TEST(completion_queue, resize_keeps_completions) {
  const auto queue = tested().context.create_cq(16).value();
  const auto resized = queue.resize(200);
  VERBENA_NEEDS(resized || resized.error().kind() != error_kind::not_supported,
                "the device does not resize completion queues");
  resized.value();
  EXPECT_GE(queue.capacity(), 200U);
  queue.resize(20).value();
  EXPECT_GE(queue.capacity(), 20U);
  const auto refused = queue.resize(beyond_every_limit);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().call(), "ibv_resize_cq");
}

// parity: ibverbs-tests-79, ibverbs-121
TEST(completion_queue, new_queue_is_empty) {
  const auto queue = tested().context.create_cq(16).value();
  EXPECT_TRUE(is_empty(queue));
  std::array<completion, 4> room;
  EXPECT_TRUE(queue.poll(std::span(room).first(0)).value().empty());
}

// parity: ibverbs-99
TEST(completion_queue, close_while_in_use_by_a_queue_pair_is_refused) {
  const auto pd = tested().context.allocate_pd().value();
  auto queue = tested().context.create_cq(16).value();
  const auto close_in_use = [&](auto user) {
    auto refused = std::move(queue).close();
    ASSERT_FALSE(refused);
    queue = std::move(refused).object();
    std::move(user).close().value();
    std::move(queue).close().value();
  };
  if (is_efa())
    close_in_use(pd.create_qp<ud>(queue, queue).value());
  else
    close_in_use(pd.create_qp<rc>(queue, queue, default_options()).value());
}

class shared_completion_queue : public data_test {};
INSTANTIATE_TEST_SUITE_P(rc, shared_completion_queue, ::testing::ValuesIn(variants_with_two_ends()),
                         name_of);

// parity: ibverbs-121
TEST_P(shared_completion_queue, poll_returns_at_most_the_requested_number) {
  VERBENA_OPEN();
  const auto memory = connection().memory(4096);
  post([&](auto& batch) {
    for (std::uint64_t i = 0; i < 6; ++i)
      batch.write({.id = i, .signaled = true}, memory.slice(0, 8), memory.remote().slice(64, 8));
  });
  std::uint64_t next = 0;
  std::array<completion, 4> room;
  const deadline end = test_deadline();
  while (next < 6 && !end.expired()) {
    const auto found = initiator().sends.poll(room).value();
    EXPECT_LE(found.size(), room.size());
    for (const auto& done : found) EXPECT_EQ(done.id(), next++);
  }
  EXPECT_EQ(next, 6U);
}

// A lost completion must be reported.
// parity: ibverbs-74
TEST_P(shared_completion_queue, overflow_is_reported) {
  link_options options;
  options.completions = 4;
  options.initiator.queues.max_send_wr = 512;
  VERBENA_OPEN(options);
  const auto memory = connection().memory(4096);
  const std::size_t capacity = initiator().sends.capacity();
  ASSERT_LT(capacity, 500U);
  bool reported = false;
  for (std::size_t i = 0; i <= capacity + 8; ++i) {
    const post_status posted = post(initiator(), [&](auto& batch) {
      batch.write({.id = i, .signaled = true}, memory.slice(0, 8), memory.remote().slice(64, 8));
    });
    if (!posted.has_value()) break;  // the queue pair has failed
  }
  const deadline end = test_deadline();
  while (!reported && !end.expired()) {
    const auto event = connection().context().wait_event(end).value();
    reported =
        event && event->kind() == async_event_kind::cq_error && event->concerns(initiator().sends);
  }
  EXPECT_TRUE(reported) << "IBV_EVENT_CQ_ERR was not raised";
}

// Eight connections share one completion queue. The completions of each connection keep their
// order.
TEST_P(shared_completion_queue, one_queue_serves_many_queue_pairs) {
  VERBENA_NEEDS(!is_efa(), "an EFA has no connected queue pairs");
  const auto wires = make_connector();
  const auto queue = wires->context().create_cq(512).value();
  auto options = default_options();
  options.extended = GetParam().interface == interface_kind::extended;
  std::vector<connector::ends> pairs;
  pairs.reserve(8);
  for (int i = 0; i < 8; ++i)
    pairs.push_back(wires->connect({{queue, queue}, options}, {{queue, queue}, options}));
  if (options.extended)
    VERBENA_NEEDS(pairs[0].first.is_extended(), "the provider has no extended interface");
  const auto memory = wires->pd().allocate(65536, all_access()).value();
  fill(memory.bytes().first(32768), 61);
  const auto post_to = [&](auto&& poster, std::size_t which) {
    auto batch = poster.start_send();
    for (std::uint64_t i = 0; i < 4; ++i)
      batch.send({.id = i, .signaled = true}, memory.slice(which * 4096 + i * 100, 100));
    batch.submit().value();
  };
  for (std::size_t which = 0; which < pairs.size(); ++which)
    for (std::uint64_t i = 0; i < 4; ++i)
      pairs[which]
          .second.post_receive({.id = 100 + i}, memory.slice(32768 + which * 4096 + i * 100, 100))
          .value();
  for (std::size_t which = 0; which < pairs.size(); ++which) {
    if (options.extended)
      post_to(pairs[which].first.extended().value(), which);
    else
      post_to(pairs[which].first, which);
  }
  std::map<queue_pair_number, std::vector<std::uint64_t>> seen;
  for (const auto& done : take(queue, 64)) {
    EXPECT_TRUE(done.ok()) << to_string(done);
    seen[done.queue_pair()].push_back(done.id());
  }
  ASSERT_EQ(seen.size(), 16U);
  for (std::size_t which = 0; which < pairs.size(); ++which) {
    EXPECT_EQ(seen[pairs[which].first.number()], (std::vector<std::uint64_t>{0, 1, 2, 3}));
    EXPECT_EQ(seen[pairs[which].second.number()], (std::vector<std::uint64_t>{100, 101, 102, 103}));
    EXPECT_TRUE(holds(memory, 32768 + which * 4096, memory.bytes().subspan(which * 4096, 400)));
  }
}

// Sends and receives of one queue pair share a completion queue, which returns both kinds.
TEST_P(shared_completion_queue, send_and_receive_completions_are_distinguished) {
  VERBENA_NEEDS(!is_efa(), "an EFA has no connected queue pairs");
  const auto wires = make_connector();
  const auto queue = wires->context().create_cq(16).value();
  auto options = default_options();
  options.extended = GetParam().interface == interface_kind::extended;
  auto ends = wires->connect({{queue, queue}, options}, {{queue, queue}, options});
  if (options.extended)
    VERBENA_NEEDS(ends.first.is_extended(), "the provider has no extended interface");
  const auto memory = wires->pd().allocate(4096, all_access()).value();
  ends.second.post_receive({.id = 1}, memory.slice(0, 64)).value();
  const auto post_to = [&](auto&& poster) {
    auto batch = poster.start_send();
    batch.send({.id = 2, .signaled = true}, memory.slice(64, 64));
    batch.submit().value();
  };
  if (options.extended)
    post_to(ends.first.extended().value());
  else
    post_to(ends.first);
  for (const auto& done : take(queue, 2)) {
    EXPECT_TRUE(done.ok()) << to_string(done);
    EXPECT_EQ(done.is_receive(), done.id() == 1);
    EXPECT_EQ(done.queue_pair(), done.id() == 1 ? ends.second.number() : ends.first.number());
  }
}

// 2000 completions pass through a queue of 16 entries.
TEST_P(shared_completion_queue, queue_wraps_around) {
  link_options options;
  options.completions = 16;
  options.initiator.queues.max_send_wr = 16;
  VERBENA_OPEN(options);
  const auto memory = connection().memory(4096);
  std::uint64_t next = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    post([&](auto& batch) {
      for (std::uint64_t i = 0; i < 5; ++i)
        batch.write({.id = round * 5 + i, .signaled = true}, memory.slice(0, 8),
                    memory.remote().slice(64, 8));
    });
    for (const auto& done : take(initiator().sends, 5)) ASSERT_EQ(done.id(), next++);
  }
  EXPECT_TRUE(is_empty(initiator().sends));
}

}  // namespace
}  // namespace verbena::conformance
