// SPDX-License-Identifier: MIT
// Shared receive queues: queue pairs consume receives in the order of posting.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/conformance/ends.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/global_route_header.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena::conformance {
namespace {

// Calls connect() and ends the test if connect() has skipped it.
#define VERBENA_CONNECT()    \
  do {                       \
    connect();               \
    if (IsSkipped()) return; \
  } while (false)

constexpr std::size_t shared_bytes = 16 << 10;

class shared_receives : public ::testing::TestWithParam<interface_kind> {
 protected:
  void open(const shared_receive_queue_options& options = {.max_wr = 16, .max_sge = 2}) {
    VERBENA_NEEDS(!is_efa(), "an EFA has no shared receive queues");
    wires = make_connector();
    shared.emplace(pd().create_srq(options).value());
    source.emplace(pd().allocate(shared_bytes, all_access()).value());
    sink.emplace(pd().allocate(shared_bytes, all_access()).value());
  }
  [[nodiscard]] const protection_domain& pd() const { return wires->pd(); }
  [[nodiscard]] queues make_queues() const {
    return {wires->context().create_cq(64).value(), wires->context().create_cq(64).value()};
  }
  // A connection whose target uses the shared receive queue.
  void connect() {
    const bool extended = GetParam() == interface_kind::extended;
    const queue_pair_options<rc> options{.extended = extended,
                                         .reliability = {.rnr_retry_count = 7}};
    const queues first = make_queues();
    const queues second = make_queues();
    auto [a, b] = wires->connect({first, options}, {second, options, &*shared});
    initiators.push_back({first.sends, first.receives, std::move(a)});
    targets.push_back({second.sends, second.receives, std::move(b)});
    VERBENA_NEEDS(!extended || initiators.back().queue.is_extended(),
                  "the provider has no extended interface");
  }
  void send(std::size_t from, std::size_t bytes) {
    post_by(GetParam(), initiators[from].queue, [&](auto& batch) {
      batch.send({.id = from, .signaled = true}, source->slice(0, bytes));
    });
  }

  std::unique_ptr<connector> wires;
  std::optional<shared_receive_queue> shared;
  std::vector<side> initiators;
  std::vector<side> targets;
  std::optional<memory_region> source;
  std::optional<memory_region> sink;
};
INSTANTIATE_TEST_SUITE_P(srq, shared_receives,
                         ::testing::Values(interface_kind::classic, interface_kind::extended),
                         [](const auto& of) {
                           return std::string(of.param == interface_kind::classic ? "classic"
                                                                                  : "extended");
                         });

// parity: ibverbs-tests-56, ibverbs-260, rrddmma-99, rrddmma-100
TEST_P(shared_receives, receives_are_taken_in_order_by_any_queue_pair) {
  VERBENA_OPEN();
  for (int i = 0; i < 3; ++i) VERBENA_CONNECT();
  auto batch = shared->start_receive();
  for (std::uint64_t id = 0; id < 6; ++id) batch.receive({.id = id}, sink->slice(id * 512, 512));
  batch.submit().value();
  for (std::uint64_t id = 0; id < 6; ++id) {
    const std::size_t by = id % 3;
    const std::size_t bytes = 100 + id;
    fill(source->bytes().first(bytes), static_cast<std::uint32_t>(id));
    send(by, bytes);
    const completion arrived = take_one(targets[by].receives);
    ASSERT_TRUE(arrived.ok()) << to_string(arrived);
    EXPECT_EQ(arrived.id(), id);
    EXPECT_EQ(arrived.byte_length(), bytes);
    EXPECT_EQ(arrived.queue_pair(), targets[by].queue.number());
    EXPECT_TRUE(holds(*sink, id * 512, source->bytes().first(bytes)));
    EXPECT_TRUE(take_one(initiators[by].sends).ok());
  }
}

TEST_P(shared_receives, shared_receive_scatters_over_sges) {
  VERBENA_OPEN();
  VERBENA_CONNECT();
  const std::array parts = {sink->slice(0, 30), sink->slice(1000, 70)};
  shared->post_receive({.id = 3}, parts).value();
  fill(source->bytes().first(100), 3);
  send(0, 100);
  EXPECT_EQ(take_one(targets[0].receives).byte_length(), 100U);
  EXPECT_TRUE(holds(*sink, 0, source->bytes().first(30)));
  EXPECT_TRUE(holds(*sink, 1000, source->bytes().subspan(30, 70)));
  EXPECT_TRUE(take_one(initiators[0].sends).ok());
}

TEST_P(shared_receives, late_receive_completes_a_waiting_send) {
  VERBENA_NEEDS(!is_iwarp(), "a message of iWARP does not wait for a receive");
  VERBENA_OPEN();
  VERBENA_CONNECT();
  send(0, 64);
  EXPECT_TRUE(stays_empty(targets[0].receives));
  shared->post_receive({.id = 8}, sink->slice(0, 64)).value();
  EXPECT_EQ(take_one(targets[0].receives).id(), 8U);
  EXPECT_TRUE(take_one(initiators[0].sends).ok());
}

// parity: rrddmma-98
TEST_P(shared_receives, post_to_full_shared_queue_returns_enomem) {
  VERBENA_OPEN({.max_wr = 4});
  constexpr std::uint32_t beyond_rounding = 8192;
  std::uint32_t taken = 0;
  post_status last;
  while (taken <= beyond_rounding && (last = shared->post_receive({}, sink->slice(0, 8)))) ++taken;
  EXPECT_EQ(last.code(), ENOMEM);
  EXPECT_GE(taken, 4U);
}

// parity: ibverbs-261, ibverbs-263
TEST_P(shared_receives, size_and_limit_are_queried_and_modified) {
  VERBENA_OPEN();
  const auto made = shared->query().value();
  EXPECT_GE(made.max_wr, 16U);
  EXPECT_GE(made.max_sge, 2U);
  EXPECT_EQ(made.limit, 0U);
  shared->arm_limit(3).value();
  EXPECT_EQ(shared->query().value().limit, 3U);
  shared->arm_limit(0).value();
  EXPECT_EQ(shared->query().value().limit, 0U);
  EXPECT_FALSE(shared->arm_limit(1'000'000));
  if (const auto grown = shared->resize(100); grown)
    EXPECT_GE(shared->query().value().max_wr, 100U);
  else
    EXPECT_EQ(grown.error().kind(), error_kind::not_supported) << grown.error().message();
}

// Waits for the event. Ignores events of other tests with the same context.
::testing::AssertionResult limit_was_reached(const context& device, const ibv_srq* of) {
  const auto& verbs = device.provider().verbs;
  const deadline limit = test_deadline();
  while (!limit.expired()) {
    pollfd wanted{.fd = device.native()->async_fd, .events = POLLIN, .revents = 0};
    if (poll(&wanted, 1, 10) <= 0) continue;
    ibv_async_event event{};
    if (verbs.get_async_event(device.native(), &event) != 0) continue;
    const bool found = event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == of;
    verbs.ack_async_event(&event);
    if (found) return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "no event arrived before the deadline";
}

// parity: ibverbs-262
TEST_P(shared_receives, falling_below_the_limit_raises_one_event) {
  VERBENA_OPEN();
  VERBENA_CONNECT();
  for (std::uint64_t id = 0; id < 4; ++id)
    shared->post_receive({.id = id}, sink->slice(id * 64, 64)).value();
  shared->arm_limit(3).value();
  for (int i = 0; i < 2; ++i) {
    send(0, 8);
    EXPECT_TRUE(take_one(targets[0].receives).ok());
    EXPECT_TRUE(take_one(initiators[0].sends).ok());
  }
  EXPECT_TRUE(limit_was_reached(wires->context(), shared->native()));
  if (const auto after = shared->query(); after)
    EXPECT_EQ(after->limit, 0U) << "the limit is reset after the event";
  else
    EXPECT_EQ(after.error().kind(), error_kind::not_supported) << after.error().message();
}

TEST_P(shared_receives, size_beyond_the_device_limit_is_refused_and_limit_named) {
  VERBENA_OPEN();
  const auto refused = pd().create_srq({.max_wr = 100'000'000});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("max_wr 100000000 exceeds the device's maximum"),
            std::string::npos)
      << refused.error().message();
}

// parity: ibverbs-260
TEST_P(shared_receives, shared_queue_outlives_its_queue_pairs) {
  VERBENA_OPEN();
  VERBENA_CONNECT();
  shared->post_receive({.id = 1}, sink->slice(0, 64)).value();
  auto refused = std::move(*shared).close();
  ASSERT_FALSE(refused);
  shared.reset();
  {
    const auto last_handle = std::move(refused).object();
  }
  send(0, 10);
  EXPECT_EQ(take_one(targets[0].receives).id(), 1U);
  EXPECT_TRUE(take_one(initiators[0].sends).ok());
}

// parity: rrddmma-100
TEST_P(shared_receives, shared_queue_receives_datagrams) {
  VERBENA_NEEDS(!is_iwarp(), "iWARP does not support datagrams");
  VERBENA_OPEN();
  const maker<ud> datagrams;
  const auto queue_of_datagrams = datagrams.pd().create_srq({}).value();
  const queue_key key(5);
  std::vector<endpoint> endpoints;
  std::vector<address_handle> ways;
  std::vector<end<ud>> ends;
  for (int i = 0; i < 2; ++i) {
    auto made =
        datagrams.prepare(queue_of_datagrams, {.extended = GetParam() == interface_kind::extended});
    endpoints.push_back(made.queue.endpoint());
    ways.push_back(
        datagrams.pd().create_ah(made.queue.address_of(endpoints.back()).value()).value());
    ends.push_back({made.sends, made.receives, std::move(made.queue).activate(key).value()});
  }
  constexpr std::size_t header_bytes = global_route_header::encoded_size;
  const auto memory = datagrams.pd().allocate(4096, all_access()).value();
  for (std::size_t i = 0; i < 2; ++i)
    queue_of_datagrams.post_receive({.id = i}, memory.slice(i * 512, 512)).value();
  // Each queue pair sends to the other; receives are consumed in order.
  for (std::size_t i = 0; i < 2; ++i) {
    const auto payload = memory.bytes().subspan(2048, 50 + i);
    fill(payload, static_cast<std::uint32_t>(i));
    auto& from = ends[1 - i];
    post_by(GetParam(), from.queue, [&](auto& batch) {
      batch.send({.id = 9, .signaled = true}, memory.slice(2048, payload.size()),
                 ways[i].destination(ends[i].queue.number(), key));
    });
    const completion arrived = take_one(ends[i].receives);
    ASSERT_TRUE(arrived.ok()) << to_string(arrived);
    EXPECT_EQ(arrived.id(), i);
    EXPECT_EQ(arrived.byte_length(), header_bytes + payload.size());
    EXPECT_EQ(arrived.queue_pair(), ends[i].queue.number());
    EXPECT_EQ(arrived.source_queue_pair(), from.queue.number());
    expect_source(arrived, memory.bytes().subspan(i * 512), endpoints[1 - i], endpoints[i]);
    EXPECT_TRUE(holds(memory, i * 512 + header_bytes, payload));
    EXPECT_EQ(take_one(from.sends).id(), 9U);
  }
}

}  // namespace
}  // namespace verbena::conformance
