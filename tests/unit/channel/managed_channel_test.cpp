// SPDX-License-Identifier: MIT
// Channels that are connected with the connection manager.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <future>
#include <optional>
#include <stdexcept>
#include <utility>

#include "tests/unit/channel/channel_pair.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/channel/reconnection.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

constexpr cm::connection_options both_may_send{.first = cm::first_sender::passive};

// The objects of both sides before they are connected.
class managed_channel : public ::testing::Test {
 protected:
  managed_channel()
      : listener_(manager_.open()),
        peer_(manager_.find(listener_.port())),
        pd_(peer_.context().value().allocate_pd().value()),
        pool_(buffer_pool::create(pd_, {}).value()) {}

  [[nodiscard]] prepared_channel prepare() const {
    channel_options options{.queues = {.max_send_wr = 4, .max_recv_wr = 4},
                            .route = {.port = peer_.port()}};
    options.counts_messages = true;
    return pd_.create_channel(options).value();
  }
  [[nodiscard]] buffer memory() const { return std::move(*pool_.take(1)); }
  // Posts a receive and stores its handle in `kept`.
  [[nodiscard]] auto receives_into(std::optional<pending_operation>& kept) const {
    return [this, &kept](channel& made) -> result<void> {
      kept.emplace(made.post_receive(memory()));
      return {};
    };
  }
  [[nodiscard]] connected_channels connect(channel_preparation asking = {},
                                           channel_preparation answering = {}) {
    auto asked = std::async(std::launch::async, [&] {
      return prepare().connect(peer_, both_may_send, long_deadline(), asking);
    });
    auto answered = prepare().accept(listener_.accept(long_deadline()).value(), both_may_send,
                                     long_deadline(), answering);
    return {asked.get().value(), std::move(answered).value()};
  }

  // The second of two messages is in flight when the connection is closed.
  [[nodiscard]] operation_result break_between_messages(connected_channels& ends,
                                                        pending_operation& receive) const {
    auto done = ends.asking.post_send(memory(), {.length = 10});
    EXPECT_TRUE(*done.wait(long_deadline()));
    EXPECT_NE(receive.wait(long_deadline()), nullptr);
    auto stuck = ends.asking.post_send(memory(), {.length = 10});
    ends.asking.flush();
    return *stuck.poll();
  }
  // Returns the delivery of the second message after both sides have exchanged resume tokens. On
  // iWARP a lost message may have completed with success, so the delivery may be unknown.
  [[nodiscard]] delivery settled(const operation_result& message) const {
    if (!message.has_value()) {
      EXPECT_EQ(message.delivery(), delivery::unknown);
      return delivery::not_done;
    }
    EXPECT_TRUE(is_iwarp(pd_.context()));
    return delivery::unknown;
  }
  // Both sides post a receive and reconnect.
  [[nodiscard]] std::pair<reconnection, reconnection> reconnect(connected_channels& ends,
                                                                channel_preparation asking,
                                                                channel_preparation answering) {
    auto again = manager_.find(listener_.port());
    auto asked = std::async(std::launch::async, [&] {
      return ends.asking.reconnect(again, both_may_send, long_deadline(), asking);
    });
    auto answered = ends.answering.accept_reconnect(listener_.accept(long_deadline()).value(),
                                                    both_may_send, long_deadline(), answering);
    return {asked.get().value(), answered.value()};
  }

  tested_manager manager_;
  cm::listener listener_;
  cm::connector peer_;
  protection_domain pd_;
  buffer_pool pool_;
};

// parity: rrddmma-114
TEST_F(managed_channel, receives_are_posted_before_the_peer_can_send) {
  std::optional<pending_operation> first;
  std::optional<pending_operation> second;
  auto [a, b] = connect(receives_into(first), receives_into(second));
  EXPECT_EQ(a.in_flight(), 1U);
  ASSERT_TRUE(*b.post_send(memory(), {.length = 10}).wait(long_deadline()));
  ASSERT_TRUE(*a.post_send(memory(), {.length = 20}).wait(long_deadline()));
  ASSERT_NE(first->wait(long_deadline()), nullptr);
  ASSERT_NE(second->wait(long_deadline()), nullptr);
  EXPECT_EQ(first->poll()->byte_length(), 10U);
  EXPECT_EQ(second->poll()->byte_length(), 20U);
  ASSERT_NE(a.connection(), nullptr);
  EXPECT_EQ(a.connection()->peer_address()->port(), listener_.port());
  EXPECT_EQ(a.query().value().queues.max_send_wr, 4U);
}

TEST_F(managed_channel, disconnect_of_the_peer_is_reported) {
  std::optional<pending_operation> receive;
  auto ends = connect(receives_into(receive));
  EXPECT_FALSE(ends.asking.connection()->is_disconnected().value());
  {
    const channel gone = std::move(ends.answering);
  }
  EXPECT_TRUE(ends.asking.connection()->wait_disconnected(long_deadline()).value());
  ends.asking.flush();
  ASSERT_NE(receive->poll(), nullptr);
  EXPECT_EQ(receive->poll()->completion()->status(), completion_status::flushed);
  receive->take_buffer().reset();
  EXPECT_EQ(pool_.taken(), 0U);
}

TEST_F(managed_channel, failed_connection_returns_posted_buffers) {
  std::optional<pending_operation> kept;
  const auto fails = [&](channel& made) -> result<void> {
    kept.emplace(made.post_receive(memory()));
    auto dropped = made.post_receive(memory());
    return error::invalid_argument("test", {}, "not today");
  };
  auto asked = std::async(std::launch::async, [&] {
    return prepare().connect(peer_, both_may_send, long_deadline(), fails);
  });
  auto answered =
      prepare().accept(listener_.accept(long_deadline()).value(), both_may_send, long_deadline());
  expect_error(asked.get(), "not today");
  EXPECT_FALSE(answered.has_value());
  ASSERT_TRUE(kept);
  ASSERT_NE(kept->poll(), nullptr);
  EXPECT_EQ(kept->poll()->end(), operation_end::lost);
  EXPECT_EQ(kept->poll()->code(), EINVAL);
  kept->take_buffer().reset();
  EXPECT_EQ(pool_.taken(), 0U);
}

// The handle of the receive is destroyed, and the error has no errno.
TEST_F(managed_channel, preparation_that_fails_without_errno_leaves_no_operation) {
  const auto hub = completion_hub::create(pd_.context(), 16).value();
  const auto fails = [&](channel& made) -> result<void> {
    static_cast<void>(made.post_receive(memory()));
    return error::unavailable(0, "test", {}, "not today");
  };
  auto asked = std::async(std::launch::async, [&] {
    return pd_
        .create_channel(
            hub, {.queues = {.max_send_wr = 4, .max_recv_wr = 4}, .route = {.port = peer_.port()}})
        .value()
        .connect(peer_, both_may_send, long_deadline(), fails);
  });
  auto answered =
      prepare().accept(listener_.accept(long_deadline()).value(), both_may_send, long_deadline());
  expect_error(asked.get(), "not today");
  EXPECT_EQ(pool_.taken(), 0U);
  EXPECT_EQ(hub.unreserved(), 16U);
}

TEST_F(managed_channel, exception_of_a_preparation_leaves_a_channel_without_connection) {
  auto ends = connect();
  ends.asking.flush();
  std::optional<pending_operation> posted;
  const auto throws = [&](channel& made) -> result<void> {
    posted.emplace(made.post_receive(memory()));
    throw std::runtime_error("of the preparation");
  };
  auto again = manager_.find(listener_.port());
  auto answered = std::async(std::launch::async, [&] {
    return ends.answering.accept_reconnect(listener_.accept(long_deadline()).value(), both_may_send,
                                           deadline::after(2s));
  });
  EXPECT_THROW(
      static_cast<void>(ends.asking.reconnect(again, both_may_send, deadline::after(20s), throws)),
      std::runtime_error);
  EXPECT_EQ(ends.asking.qp(), nullptr);
  ASSERT_NE(ends.asking.failure(), nullptr);
  EXPECT_EQ(ends.asking.failure()->cause, failure_cause::program);
  ASSERT_TRUE(posted);
  ASSERT_NE(posted->poll(), nullptr);
  EXPECT_EQ(posted->poll()->end(), operation_end::lost);
  EXPECT_EQ(posted->poll()->code(), ECANCELED);
  EXPECT_EQ(ends.asking.post_send(memory(), {.length = 10}).poll()->refusal(),
            refusal::not_connected);
  again = manager_.find(listener_.port());  // destroys the request of the other
  EXPECT_FALSE(answered.get());
}

TEST_F(managed_channel, destroyed_request_rejects_the_channel) {
  auto asked =
      std::async(std::launch::async, [&] { return prepare().connect(peer_, {}, long_deadline()); });
  {
    auto dropped = listener_.accept(long_deadline()).value();
  }
  const auto refused = asked.get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ECONNREFUSED);
}

TEST_F(managed_channel, reconnect_reports_the_messages_that_arrived) {
  std::optional<pending_operation> receive;
  auto ends = connect({}, receives_into(receive));
  const auto second_message = break_between_messages(ends, *receive);
  std::optional<pending_operation> first;
  std::optional<pending_operation> second;
  const auto [asking, answering] = reconnect(ends, receives_into(first), receives_into(second));
  EXPECT_EQ(asking.peer(), reconnected_peer::same);
  EXPECT_EQ(answering.peer(), reconnected_peer::same);
  EXPECT_EQ(asking.received_by_peer(), 1U);
  EXPECT_EQ(answering.received_by_peer(), 0U);
  EXPECT_EQ(asking.reconcile(second_message), settled(second_message));
  EXPECT_EQ(ends.asking.failure(), nullptr);
  ASSERT_TRUE(*ends.asking.post_send(memory(), {.length = 30}).wait(long_deadline()));
  ASSERT_TRUE(*ends.answering.post_send(memory(), {.length = 40}).wait(long_deadline()));
  ASSERT_NE(first->wait(long_deadline()), nullptr);
  ASSERT_NE(second->wait(long_deadline()), nullptr);
  EXPECT_EQ(first->poll()->byte_length(), 40U);
  EXPECT_EQ(second->poll()->byte_length(), 30U);
  ASSERT_NE(ends.asking.connection(), nullptr);
  EXPECT_FALSE(ends.asking.connection()->is_disconnected().value());
}

TEST_F(managed_channel,
       that_fails_to_connect_again_stays_without_a_connection_and_may_try_once_more) {
  std::optional<pending_operation> receive;
  auto ends = connect({}, receives_into(receive));
  const auto second_message = break_between_messages(ends, *receive);
  std::optional<pending_operation> posted;
  const auto fails = [&](channel& made) -> result<void> {
    posted.emplace(made.post_receive(memory()));
    return error::invalid_argument("test", {}, "not today");
  };
  {
    auto again = manager_.find(listener_.port());
    auto asked = std::async(std::launch::async, [&] {
      return ends.asking.reconnect(again, both_may_send, long_deadline(), fails);
    });
    EXPECT_FALSE(ends.answering.accept_reconnect(listener_.accept(long_deadline()).value(),
                                                 both_may_send, long_deadline()));
    expect_error(asked.get(), "not today");
  }
  ASSERT_TRUE(posted);
  ASSERT_NE(posted->poll(), nullptr);
  EXPECT_EQ(posted->poll()->end(), operation_end::lost);
  EXPECT_EQ(ends.asking.connection(), nullptr);
  ASSERT_NE(ends.asking.failure(), nullptr);
  EXPECT_EQ(ends.asking.failure()->cause, failure_cause::program);
  auto refused = ends.asking.post_send(memory(), {.length = 10});
  EXPECT_EQ(refused.poll()->refusal(), refusal::not_connected);
  const auto [asking, answering] = reconnect(ends, {}, {});
  EXPECT_EQ(asking.peer(), reconnected_peer::same);
  EXPECT_EQ(asking.reconcile(second_message), settled(second_message));
}

TEST_F(managed_channel, wait_for_a_message_ends_if_the_peer_disconnects) {
  auto ends = connect();
  auto receive = ends.asking.post_receive(memory());
  {
    const channel gone = std::move(ends.answering);
  }
  // Each wait is shorter than the interval in which the channel looks for the disconnect.
  const auto until = long_deadline();
  while (receive.wait(deadline::after(10ms)) == nullptr && !until.expired()) continue;
  ASSERT_NE(receive.poll(), nullptr);
  EXPECT_FALSE(*receive.poll());
  ASSERT_NE(ends.asking.failure(), nullptr);
  EXPECT_EQ(ends.asking.failure()->cause, failure_cause::connection);
  EXPECT_TRUE(ends.asking.connection()->is_disconnected().value());
}

TEST_F(managed_channel, reconnect_detects_a_restarted_peer) {
  auto ends = connect();
  {
    const channel gone = std::move(ends.answering);
  }
  auto again = manager_.find(listener_.port());
  auto asked = std::async(std::launch::async, [&] {
    return ends.asking.reconnect(again, both_may_send, long_deadline());
  });
  const auto anew =
      prepare().accept(listener_.accept(long_deadline()).value(), both_may_send, long_deadline());
  EXPECT_TRUE(anew.has_value());
  EXPECT_EQ(asked.get().value().peer(), reconnected_peer::another);
}

TEST_F(managed_channel, reconnect_with_other_private_data_has_unknown_peer) {
  const std::array<std::byte, 3> words{std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
  const cm::connection_options with_words{.private_data = words,
                                          .first = cm::first_sender::passive};
  auto ends = connect();
  auto again = manager_.find(listener_.port());
  auto asked = std::async(std::launch::async, [&] {
    return ends.asking.reconnect(again, with_words, long_deadline());
  });
  auto request = listener_.accept(long_deadline()).value();
  EXPECT_TRUE(std::ranges::equal(request.private_data().first(words.size()), words));
  const auto answered =
      ends.answering.accept_reconnect(std::move(request), both_may_send, long_deadline());
  EXPECT_EQ(answered.value().peer(), reconnected_peer::unknown);
  EXPECT_EQ(asked.get().value().peer(), reconnected_peer::same);
}

}  // namespace
}  // namespace verbena::test
