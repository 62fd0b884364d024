// SPDX-License-Identifier: MIT
// Completion events: an armed queue generates one event, and no completion is lost.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <optional>

#include "tests/conformance/traffic.hpp"

namespace verbena::conformance {
namespace {

class completion_events : public data_test {
 protected:
  void open() {
    link_options options;
    options.with_channel = true;
    data_test::open(options);
    if (IsSkipped()) return;
    memory.emplace(connection().memory(8192));
  }
  void send(send_request request) {
    post([&](auto& batch) { batch.send(request, memory->slice(0, 64)); });
  }
  [[nodiscard]] static bool readable(const completion_channel& channel) {
    pollfd events{.fd = channel.fd(), .events = POLLIN, .revents = 0};
    return ::poll(&events, 1, 0) == 1;
  }
  // Expects that the next event belongs to `queue`.
  void expect_event(const completion_queue& queue) {
    const auto event = connection().channel().wait(test_deadline(3s)).value();
    ASSERT_TRUE(event.has_value()) << "no event before the deadline";
    EXPECT_TRUE(event->is_from(queue));
  }
  void expect_no_event() {
    EXPECT_FALSE(connection().channel().poll_event().value().has_value());
    EXPECT_FALSE(readable(connection().channel()));
  }

  std::optional<memory_region> memory;
};
INSTANTIATE_TEST_SUITE_P(rc, completion_events, ::testing::ValuesIn(every_variant()), name_of);

// parity: ibverbs-tests-73
TEST_P(completion_events, armed_queue_raises_an_event_on_its_channel) {
  VERBENA_OPEN();
  receive(1, memory->slice(4096, 64));
  target().receives.request_notification(notify::any_completion).value();
  expect_no_event();
  send({.id = 2, .signaled = true});
  expect_event(target().receives);
  EXPECT_EQ(received().id(), 1U);
  EXPECT_EQ(sent().id(), 2U);
  expect_no_event();
}

// parity: ibverbs-tests-73, ibverbs-83
TEST_P(completion_events, channel_descriptor_becomes_readable) {
  VERBENA_OPEN();
  receive(1, memory->slice(4096, 64));
  target().receives.request_notification(notify::any_completion).value();
  ASSERT_FALSE(readable(connection().channel()));
  send({.signaled = true});
  EXPECT_EQ(received().id(), 1U);
  const deadline end = test_deadline();
  while (!readable(connection().channel()) && !end.expired()) {
  }
  EXPECT_TRUE(readable(connection().channel()));
  expect_event(target().receives);
}

// parity: ibverbs-81
TEST_P(completion_events, unarmed_queue_raises_no_event) {
  VERBENA_OPEN();
  receive(1, memory->slice(4096, 64));
  send({.signaled = true});
  EXPECT_EQ(received().id(), 1U);
  EXPECT_TRUE(sent().ok());
  expect_no_event();
}

// parity: ibverbs-91
TEST_P(completion_events, each_arming_raises_at_most_one_event) {
  VERBENA_OPEN();
  for (std::uint64_t i = 0; i < 3; ++i) receive(i, memory->slice(4096, 64));
  target().receives.request_notification(notify::any_completion).value();
  for (int i = 0; i < 3; ++i) send({.signaled = true});
  EXPECT_EQ(take(target().receives, 3).size(), 3U);
  EXPECT_EQ(take(initiator().sends, 3).size(), 3U);
  expect_event(target().receives);
  expect_no_event();
}

// parity: ibverbs-tests-54, ibverbs-90
TEST_P(completion_events, arm_drain_wait_loses_no_completion) {
  VERBENA_OPEN();
  constexpr std::uint64_t count = 40;
  for (std::uint64_t i = 0; i < count; ++i) receive(i, memory->slice(4096, 64));
  std::uint64_t next = 0;
  for (std::uint64_t posted = 0; next < count;) {
    target().receives.request_notification(notify::any_completion).value();
    if (posted < count) {
      send({.id = posted++, .signaled = true});
      EXPECT_TRUE(sent().ok());
    }
    std::array<completion, 4> room;
    bool drained_some = false;
    for (const auto& done : target().receives.poll(room).value()) {
      ASSERT_EQ(done.id(), next++);
      drained_some = true;
    }
    if (drained_some) continue;
    ASSERT_TRUE(connection().channel().wait(test_deadline()).value().has_value());
  }
}

// parity: ibverbs-tests-74, ibverbs-80
TEST_P(completion_events, event_names_its_completion_queue) {
  VERBENA_OPEN();
  receive(1, memory->slice(4096, 64));
  initiator().sends.request_notification(notify::any_completion).value();
  send({.id = 2, .signaled = true});
  expect_event(initiator().sends);
  EXPECT_EQ(sent().id(), 2U);
  EXPECT_EQ(received().id(), 1U);
  receive(3, memory->slice(4096, 64));
  target().receives.request_notification(notify::any_completion).value();
  send({.id = 4, .signaled = true});
  expect_event(target().receives);
  EXPECT_EQ(received().id(), 3U);
  EXPECT_EQ(sent().id(), 4U);
}

// parity: ibverbs-123, ibverbs-235, rrddmma-93
TEST_P(completion_events, solicited_only_arming_ignores_unsolicited_messages) {
  VERBENA_OPEN();
  for (std::uint64_t i = 0; i < 2; ++i) receive(i, memory->slice(4096, 64));
  target().receives.request_notification(notify::solicited_only).value();
  send({.signaled = true});
  EXPECT_EQ(received().id(), 0U);
  EXPECT_TRUE(sent().ok());
  expect_no_event();
  send({.signaled = true, .solicited = true});
  expect_event(target().receives);
  EXPECT_EQ(received().id(), 1U);
  EXPECT_TRUE(sent().ok());
}

// parity: ibverbs-84
TEST_P(completion_events, wait_without_event_ends_at_its_deadline) {
  VERBENA_OPEN();
  target().receives.request_notification(notify::any_completion).value();
  EXPECT_FALSE(connection().channel().wait(deadline::after(20ms)).value().has_value());
}

class failure_events : public completion_events {};
INSTANTIATE_TEST_SUITE_P(rc, failure_events, ::testing::ValuesIn(variants_with_two_ends()),
                         name_of);

TEST_P(failure_events, flushed_receives_raise_an_event_for_solicited_only_arming) {
  VERBENA_OPEN();
  receive(1, memory->slice(4096, 64));
  target().receives.request_notification(notify::solicited_only).value();
  target().queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  expect_event(target().receives);
  EXPECT_EQ(received().status(), completion_status::flushed);
}

// parity: ibverbs-tests-80, ibverbs-65, ibverbs-66
TEST(asynchronous_events, idle_device_raises_no_asynchronous_event) {
  const auto quiet = tested().listed.open().value();
  EXPECT_FALSE(quiet.poll_event().value().has_value());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(quiet.wait_event(deadline::after(50ms)).value().has_value());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 50ms);
  pollfd readable{.fd = quiet.async_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
}

// parity: ibverbs-tests-74, ibverbs-102
TEST(channels, channel_of_cq_without_channel_returns_nullopt) {
  const auto queue = tested().context.create_cq(16).value();
  EXPECT_FALSE(queue.channel().has_value());
  const auto channel = tested().context.create_completion_channel().value();
  const auto other = tested().context.create_cq(16, {.channel = channel}).value();
  ASSERT_TRUE(other.channel().has_value());
  EXPECT_EQ(other.channel()->fd(), channel.fd());
  EXPECT_GE(channel.fd(), 0);
}

}  // namespace
}  // namespace verbena::conformance
