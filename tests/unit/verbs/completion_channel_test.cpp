// SPDX-License-Identifier: MIT
#include "verbena/verbs/completion_channel.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include "tests/unit/verbs/loopback.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"

namespace verbena {
namespace {

using namespace std::chrono_literals;

class channels : public ::testing::Test {
 protected:
  // A queue pair that is connected to itself.
  queue_pair<rc> connected(const completion_queue& sends, const completion_queue& receives) {
    auto prepared = pd.create_qp<rc>(sends, receives, {.access = access::remote_write}).value();
    const auto self = prepared.endpoint();
    return std::move(prepared).handshake(self).value();
  }
  void send(queue_pair<rc>& queue, send_request request) {
    queue.post_receive({.id = 1}, std::span<const local_slice>()).value();
    auto batch = queue.start_send();
    batch.send(request, std::span<const local_slice>());
    batch.submit().value();
  }

  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  completion_channel channel = device.create_completion_channel().value();
  memory_region memory = pd.allocate(4096, access::local_write | access::remote_write).value();
};

// parity: ibverbs-75
TEST_F(channels, descriptor_is_non_blocking_after_creation) {
  EXPECT_GE(channel.fd(), 0);
  EXPECT_NE(::fcntl(channel.fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_FALSE(channel.poll_event().value().has_value());
}

// parity: ibverbs-85, ibverbs-84
TEST_F(channels, wait_without_event_ends_at_its_deadline) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(channel.wait(deadline::after(30ms)).value().has_value());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 30ms);
}

TEST_F(channels, armed_queue_causes_one_event) {
  const auto cq = device.create_cq(16, {.channel = channel}).value();
  auto queue = connected(cq, cq);
  cq.request_notification(notify::any_completion).value();
  send(queue, {.id = 2, .signaled = true});
  const auto event = channel.wait(deadline::after(20s)).value();
  ASSERT_TRUE(event);
  EXPECT_TRUE(event->is_from(cq));
  EXPECT_EQ(event->native_queue(), cq.native());
  test::take(cq, 2);
  // It was armed once.
  send(queue, {.id = 3, .signaled = true});
  test::take(cq, 2);
  EXPECT_FALSE(channel.poll_event().value().has_value());
}

TEST_F(channels, moderated_queue_causes_one_event_for_several_completions) {
  const auto cq = device.create_cq(16, {.channel = channel}).value();
  auto queue = connected(cq, cq);
  cq.moderate({.completions = 4}).value();
  cq.request_notification(notify::any_completion).value();
  send(queue, {.id = 2, .signaled = true});
  test::take(cq, 2);
  EXPECT_FALSE(channel.poll_event().value().has_value());
  send(queue, {.id = 3, .signaled = true});
  EXPECT_TRUE(channel.wait(deadline::after(20s)).value().has_value());
  test::take(cq, 2);
  // The period ends the wait for completions that do not come.
  cq.moderate({.completions = 4, .period = 5ms}).value();
  cq.request_notification(notify::any_completion).value();
  send(queue, {.id = 4, .signaled = true});
  EXPECT_TRUE(channel.wait(deadline::after(20s)).value().has_value());
  test::take(cq, 2);
}

TEST_F(channels, the_descriptor_becomes_readable_with_an_event) {
  const auto cq = device.create_cq(16, {.channel = channel}).value();
  auto queue = connected(cq, cq);
  cq.request_notification(notify::any_completion).value();
  send(queue, {.signaled = true});
  pollfd waited{.fd = channel.fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&waited, 1, 20'000), 1);
  EXPECT_TRUE(channel.poll_event().value().has_value());
  EXPECT_EQ(::poll(&waited, 1, 0), 0);
}

// parity: ibverbs-79
TEST_F(channels, several_queues_share_one_channel) {
  const auto sends = device.create_cq(16, {.channel = channel}).value();
  const auto receives = device.create_extended_cq(16, {.channel = channel}).value();
  const auto silent = device.create_cq(16, {.channel = channel}).value();
  auto queue = connected(sends, receives);
  sends.request_notification(notify::any_completion).value();
  receives.request_notification(notify::any_completion).value();
  silent.request_notification(notify::any_completion).value();
  send(queue, {.signaled = true});
  int from_sends = 0;
  int from_receives = 0;
  for (int i = 0; i < 2; ++i) {
    const auto event = channel.wait(deadline::after(20s)).value();
    ASSERT_TRUE(event);
    from_sends += event->is_from(sends) ? 1 : 0;
    from_receives += event->is_from(receives) ? 1 : 0;
    EXPECT_FALSE(event->is_from(silent));
  }
  EXPECT_EQ(from_sends, 1);
  EXPECT_EQ(from_receives, 1);
  EXPECT_FALSE(channel.poll_event().value().has_value());
}

TEST_F(channels, solicited_only_ignores_unsolicited_messages) {
  const auto sends = device.create_cq(16).value();
  const auto receives = device.create_cq(16, {.channel = channel}).value();
  auto queue = connected(sends, receives);
  receives.request_notification(notify::solicited_only).value();
  send(queue, {.signaled = true});
  test::take(receives, 1);
  EXPECT_FALSE(channel.poll_event().value().has_value());
  send(queue, {.signaled = true, .solicited = true});
  const auto event = channel.wait(deadline::after(20s)).value();
  ASSERT_TRUE(event);
  EXPECT_TRUE(event->is_from(receives));
}

TEST_F(channels, queue_wait_with_expired_deadline_polls_once) {
  const auto cq = device.create_cq(16, {.channel = channel}).value();
  auto queue = connected(cq, cq);
  std::array<completion, 4> room;
  const auto nothing = cq.wait(room, deadline::after(0s));
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().kind(), error_kind::timed_out);
  send(queue, {.id = 2, .signaled = true});
  std::size_t found = 0;
  while (found < 2) found += cq.wait(room, deadline::after(20s)).value().size();
}

TEST_F(channels, queue_wait_ends_at_its_deadline_with_and_without_a_channel) {
  for (const bool with_channel : {true, false}) {
    const auto cq = with_channel ? device.create_cq(16, {.channel = channel}).value()
                                 : device.create_cq(16).value();
    std::array<completion, 4> room;
    const auto begin = std::chrono::steady_clock::now();
    const auto nothing = cq.wait(room, deadline::after(30ms));
    ASSERT_FALSE(nothing);
    EXPECT_EQ(nothing.error().kind(), error_kind::timed_out);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 30ms);
  }
}

TEST_F(channels, queue_wait_loses_no_completion) {
  const auto sends = device.create_cq(64).value();
  const auto alone = device.create_cq(64, {.channel = channel}).value();
  const auto shared_channel = device.create_completion_channel().value();
  const auto shares = device.create_cq(64, {.channel = shared_channel}).value();
  const auto other = device.create_cq(64, {.channel = shared_channel}).value();
  const auto polled = device.create_cq(64).value();
  for (const completion_queue& receives : {alone, shares, polled}) {
    auto queue = connected(sends, receives);
    constexpr int messages = 200;
    std::atomic<int> received = 0;
    std::thread sender([&] {
      for (int i = 0; i < messages; ++i) {
        while (i - received.load() >= 16) std::this_thread::yield();  // the queues hold 64
        send(queue, {.signaled = true});
        test::take(sends, 1);
      }
    });
    std::array<completion, 8> room;
    while (received < messages) {
      const auto found = receives.wait(room, deadline::after(20s));
      EXPECT_TRUE(found) << found.error().message();
      if (!found) break;
      received += static_cast<int>(found->size());
    }
    EXPECT_EQ(received, messages);
    received = messages;
    sender.join();
  }
}

TEST_F(channels, arm_drain_wait_loses_no_completion) {
  const auto sends = device.create_cq(64).value();
  const auto receives = device.create_cq(64, {.channel = channel}).value();
  auto queue = connected(sends, receives);
  constexpr int messages = 200;
  std::atomic<int> received = 0;
  std::thread sender([&] {
    for (int i = 0; i < messages; ++i) {
      while (i - received.load() >= 16) std::this_thread::yield();  // the queues hold 64
      send(queue, {.signaled = true});
      test::take(sends, 1);
    }
  });
  const auto limit = deadline::after(60s);
  std::array<completion, 8> room;
  while (received < messages && !limit.expired()) {
    receives.request_notification(notify::any_completion).value();
    std::size_t drained = 0;
    for (;;) {
      const auto some = receives.poll(room).value();
      if (some.empty()) break;
      drained += some.size();
    }
    received += static_cast<int>(drained);
    if (drained != 0) continue;
    EXPECT_TRUE(channel.wait(limit).value().has_value());
  }
  sender.join();
  EXPECT_EQ(received, messages);
}

// parity: ibverbs-78
TEST_F(channels, queue_keeps_the_channel_that_the_program_dropped) {
  const auto cq = device.create_cq(16, {.channel = channel}).value();
  const int descriptor = channel.fd();
  channel = device.create_completion_channel().value();
  EXPECT_NE(::fcntl(descriptor, F_GETFD), -1) << "the channel was closed";
  auto queue = connected(cq, cq);
  cq.request_notification(notify::any_completion).value();
  send(queue, {.signaled = true});
  const auto event = cq.channel()->wait(deadline::after(20s)).value();
  ASSERT_TRUE(event);
  EXPECT_TRUE(event->is_from(cq));
}

// parity: ibverbs-78
TEST_F(channels, channel_lives_as_long_as_its_queues) {
  auto cq = device.create_cq(4, {.channel = channel}).value();
  ASSERT_TRUE(cq.channel().has_value());
  EXPECT_EQ(cq.channel()->native(), channel.native());
  auto refused = std::move(channel).close();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), EBUSY);
  channel = std::move(refused).object();
  EXPECT_TRUE(std::move(cq).close());
  EXPECT_TRUE(std::move(channel).close());
}

// parity: ibverbs-82
TEST_F(channels, a_queue_with_a_delivered_event_can_be_destroyed) {
  auto cq = device.create_cq(16, {.channel = channel}).value();
  {
    auto queue = connected(cq, cq);
    cq.request_notification(notify::any_completion).value();
    send(queue, {.signaled = true});
    ASSERT_TRUE(channel.wait(deadline::after(20s)).value().has_value());
  }
  EXPECT_TRUE(std::move(cq).close());
}

// parity: ibverbs-124
TEST_F(channels, arming_a_queue_without_a_channel_has_no_effect) {
  const auto cq = device.create_cq(4).value();
  auto queue = connected(cq, cq);
  EXPECT_TRUE(cq.request_notification(notify::any_completion));
  send(queue, {.id = 2, .signaled = true});
  for (const auto& done : test::take(cq, 2)) EXPECT_TRUE(done.ok());
  EXPECT_FALSE(channel.poll_event().value().has_value());
}

// wait() of one queue must not take the events of a queue that other code created.
TEST_F(channels, wait_polls_if_other_code_uses_the_channel) {
  ibv_cq* const other =
      device.provider().verbs.create_cq(device.native(), 16, nullptr, channel.native(), 0);
  ASSERT_NE(other, nullptr);
  const auto theirs = completion_queue::adopt(other, device, ownership::take);
  const auto mine = device.create_cq(16, {.channel = channel}).value();
  auto queue = connected(theirs, theirs);
  theirs.request_notification(notify::any_completion).value();
  send(queue, {.id = 2, .signaled = true});
  std::array<completion, 4> room;
  EXPECT_EQ(mine.wait(room, deadline::after(20ms)).error().kind(), error_kind::timed_out);
  const auto event = channel.wait(deadline::after(20s)).value();
  ASSERT_TRUE(event);
  EXPECT_TRUE(event->is_from(theirs));
  test::take(theirs, 2);
}

// parity: ibverbs-77, ibverbs-308
TEST_F(channels, native_channel_can_be_adopted) {
  ibv_comp_channel* const native = device.provider().verbs.create_comp_channel(device.native());
  ASSERT_NE(native, nullptr);
  auto taken = completion_channel::adopt(native, device, ownership::take).value();
  EXPECT_EQ(taken.native(), native);
  EXPECT_FALSE(taken.poll_event().value().has_value());
  EXPECT_TRUE(std::move(taken).close());
}

using channels_death = channels;

TEST_F(channels_death, use_of_moved_from_channel_stops_the_program) {
  const auto moved = std::move(channel);
  // NOLINTNEXTLINE(bugprone-use-after-move,*.Move): that is the point
  EXPECT_DEATH(static_cast<void>(channel.fd()), "a moved-from completion_channel was used");
}

TEST_F(channels_death, adoption_with_other_context_stops_the_program) {
  const auto other = open_device("soft0").value();
  EXPECT_DEATH(static_cast<void>(completion_channel::adopt(nullptr, device, ownership::borrow)),
               "completion_channel::adopt\\(\\) with a null pointer");
  EXPECT_DEATH(
      static_cast<void>(completion_channel::adopt(channel.native(), other, ownership::borrow)),
      "completion_channel::adopt\\(\\) with another context");
}

}  // namespace
}  // namespace verbena
