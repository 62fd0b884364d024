// SPDX-License-Identifier: MIT
// Channels that connect in steps: both sides on one thread, ends and deadlines at each step.
#include "tests/unit/steps.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <optional>
#include <span>
#include <utility>

#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/channel/channel_pair.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/channel/message_channel.hpp"
#include "verbena/channel/message_channel_options.hpp"
#include "verbena/channel/message_failure.hpp"
#include "verbena/channel/prepared_message_channel.hpp"
#include "verbena/channel/reconnection.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;

constexpr cm::connection_options either_first{.first = cm::first_sender::passive};

/// Both sides on this thread, connected by the connection manager.
class managed_channel_steps : public ::testing::Test {
 protected:
  managed_channel_steps()
      : listener_(manager_.open()),
        pd_(find().context().value().allocate_pd().value()),
        pool_(buffer_pool::create(pd_, {}).value()) {}

  [[nodiscard]] cm::connector find() const {
    driven resolving(manager_.resolve_in_steps(listener_.port(), long_deadline()));
    drive(resolving);
    return resolving.take();
  }
  [[nodiscard]] prepared_channel prepare(const cm::connector& peer) const {
    return pd_
        .create_channel(
            {.queues = {.max_send_wr = 4, .max_recv_wr = 4}, .route = {.port = peer.port()}})
        .value();
  }
  [[nodiscard]] prepared_message_channel prepare_messages() const {
    return message_channel::prepare(
               pd_, {.message_bytes = 64, .queues = {.max_send_wr = 4, .max_recv_wr = 4}})
        .value();
  }
  /// Returns the active and the passive side.
  [[nodiscard]] std::pair<message_channel, message_channel> connect_messages() {
    auto peer = find();
    driven connecting(prepare_messages().connect_in_steps(peer, long_deadline()));
    auto request = request_of(connecting);
    driven accepting(prepare_messages().accept_in_steps(std::move(request), long_deadline()));
    drive(connecting, accepting);
    return {connecting.take(), accepting.take()};
  }
  [[nodiscard]] auto receives_into(std::optional<pending_operation>& kept) const {
    return [this, &kept](channel& made) -> result<void> {
      kept.emplace(made.post_receive(std::move(*pool_.take(1))));
      return {};
    };
  }
  static void expect_lost(pending_operation& receive) {
    const auto* const ended = receive.poll();
    ASSERT_NE(ended, nullptr);
    EXPECT_FALSE(*ended);
  }
  /// Returns the request that `connecting` has sent.
  template <class T>
  [[nodiscard]] cm::connection_request request_of(driven<T>& connecting) {
    driven waiting(listener_.accept_in_steps(long_deadline()));
    while (!waiting.has_ended()) step(connecting, waiting);
    return waiting.take();
  }

  tested_manager manager_;
  cm::listener listener_;
  protection_domain pd_;
  buffer_pool pool_;
};

TEST_F(managed_channel_steps, channels_connect_on_one_thread_and_exchange_tokens) {
  auto peer = find();
  std::optional<pending_operation> at_active;
  std::optional<pending_operation> at_passive;
  driven connecting(prepare(peer).connect_in_steps(peer, either_first, long_deadline(),
                                                   receives_into(at_active)));
  auto request = request_of(connecting);
  driven accepting(prepare(peer).accept_in_steps(std::move(request), either_first, long_deadline(),
                                                 receives_into(at_passive)));
  drive(connecting, accepting);
  auto active = connecting.take();
  auto passive = accepting.take();
  auto there = active.post_send(*pool_.take(1), {.length = 10});
  auto back = passive.post_send(*pool_.take(1), {.length = 20});
  EXPECT_TRUE(*there.wait(long_deadline()));
  EXPECT_TRUE(*back.wait(long_deadline()));
  EXPECT_EQ(at_passive->wait(long_deadline())->byte_length(), 10U);
  EXPECT_EQ(at_active->wait(long_deadline())->byte_length(), 20U);

  auto again = find();
  auto reconnecting = std::async(
      std::launch::async, [&] { return active.reconnect(again, either_first, long_deadline()); });
  auto accepted = passive.accept_reconnect(listener_.accept(long_deadline()).value(), either_first,
                                           long_deadline());
  EXPECT_EQ(reconnecting.get().value().peer(), reconnected_peer::same);
  EXPECT_EQ(accepted.value().peer(), reconnected_peer::same);
}

TEST_F(managed_channel_steps, error_of_the_preparation_ends_both_sides) {
  auto peer = find();
  driven connecting(prepare(peer).connect_in_steps(peer, either_first, long_deadline()));
  auto request = request_of(connecting);
  driven accepting(prepare(peer).accept_in_steps(
      std::move(request), either_first, long_deadline(), [](channel&) -> result<void> {
        return error::unavailable(ENOMEM, "prepare", "test", "no memory");
      }));
  drive(connecting, accepting);
  EXPECT_EQ(accepting.outcome().error().code(), ENOMEM);
  EXPECT_FALSE(connecting.outcome());
}

// Another user of the hub polls, and the poll fails, while the queue pair can receive.
TEST_F(managed_channel_steps, hub_that_fails_while_a_channel_connects_ends_it_afterwards) {
  auto peer = find();
  const auto hub = completion_hub::create(pd_.context(), 16).value();
  driven connecting(prepare(peer).connect_in_steps(peer, either_first, long_deadline()));
  auto request = request_of(connecting);
  const auto posts = [&](channel& made) -> result<void> {
    static_cast<void>(made.post_receive(std::move(*pool_.take(1))));
    return {};
  };
  driven accepting(pd_.create_channel(hub, {.queues = {.max_send_wr = 4, .max_recv_wr = 4},
                                            .route = {.port = peer.port()}})
                       .value()
                       .accept_in_steps(std::move(request), either_first, long_deadline(), posts));
  while (pool_.taken() == 0 && !accepting.has_ended()) accepting.progress();
  ASSERT_FALSE(accepting.has_ended());
  ibv_context* const native = pd_.context().native();
  const ibv_context_ops before = native->ops;
  native->ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return -EIO; };
  EXPECT_FALSE(hub.progress());
  native->ops = before;
  EXPECT_EQ(pool_.taken(), 1U);
  drive(connecting, accepting);
  EXPECT_EQ(accepting.outcome().error().code(), EIO);
  EXPECT_EQ(pool_.taken(), 0U);
  EXPECT_EQ(hub.unreserved(), 16U);
}

// Receives that the preparation posted end as lost.
TEST_F(managed_channel_steps, sides_can_be_destroyed_at_each_step) {
  for (int count = 0; count < 6; ++count) {
    for (const bool active_ends : {true, false}) {
      auto peer = find();
      std::optional<pending_operation> at_active;
      std::optional<pending_operation> at_passive;
      driven connecting(prepare(peer).connect_in_steps(peer, either_first, long_deadline(),
                                                       receives_into(at_active)));
      auto request = request_of(connecting);
      driven accepting(prepare(peer).accept_in_steps(
          std::move(request), either_first, deadline::after(200ms), receives_into(at_passive)));
      for (int i = 0; i < count; ++i) step(connecting, accepting);
      if (active_ends) {
        const bool had_ended = connecting.has_ended();
        connecting.destroy();
        if (!had_ended && at_active) expect_lost(*at_active);
        drive(accepting);
      } else {
        const bool had_ended = accepting.has_ended();
        accepting.destroy();
        if (!had_ended && at_passive) expect_lost(*at_passive);
        drive(connecting);
      }
    }
  }
}

TEST_F(managed_channel_steps, deadline_ends_the_steps) {
  auto peer = find();
  std::optional<pending_operation> posted;
  driven connecting(prepare(peer).connect_in_steps(peer, either_first, deadline::after(50ms),
                                                   receives_into(posted)));
  drive(connecting);  // nothing accepts it
  EXPECT_EQ(connecting.outcome().error().kind(), error_kind::timed_out);
}

TEST_F(managed_channel_steps, message_channels_connect_on_one_thread) {
  auto [active, passive] = connect_messages();
  active.send(peers::bytes_from("there"), long_deadline()).value();
  EXPECT_EQ(passive.receive(long_deadline()).value().text(), "there");
  passive.send(peers::bytes_from("back"), long_deadline()).value();
  EXPECT_EQ(active.receive(long_deadline()).value().text(), "back");
}

TEST_F(managed_channel_steps, message_channel_ends_if_the_peer_disconnects) {
  auto [staying, leaving] = connect_messages();
  {
    const message_channel gone = std::move(leaving);
  }
  ASSERT_NE(staying.connection(), nullptr);
  const auto until = long_deadline();
  while (staying.failure() == nullptr && !until.expired())
    EXPECT_FALSE(staying.receive(deadline::after(10ms)).has_value());
  ASSERT_NE(staying.failure(), nullptr);
  // siw flushes the receives before the connection manager reports the disconnect.
  const failed_part part = staying.failure()->part;
  EXPECT_TRUE(part == failed_part::connection || part == failed_part::receive);
}

TEST_F(managed_channel_steps, message_channels_can_be_destroyed_at_each_step) {
  for (int count = 0; count < 6; ++count) {
    for (const bool active_ends : {true, false}) {
      auto peer = find();
      driven connecting(prepare_messages().connect_in_steps(peer, long_deadline()));
      auto request = request_of(connecting);
      driven accepting(
          prepare_messages().accept_in_steps(std::move(request), deadline::after(200ms)));
      for (int i = 0; i < count; ++i) step(connecting, accepting);
      if (active_ends) {
        connecting.destroy();
        drive(accepting);
      } else {
        accepting.destroy();
        drive(connecting);
      }
    }
  }
}

TEST_F(managed_channel_steps, request_with_other_private_data_is_rejected) {
  auto peer = find();
  driven connecting(prepare(peer).connect_in_steps(peer, either_first, long_deadline()));
  auto request = request_of(connecting);
  driven accepting(prepare_messages().accept_in_steps(std::move(request), long_deadline()));
  drive(connecting, accepting);
  EXPECT_EQ(accepting.outcome().error().kind(), error_kind::protocol);
  EXPECT_EQ(connecting.outcome().error().code(), ECONNREFUSED);
}

/// Both sides on this thread, connected over TCP.
class channel_steps : public ::testing::Test {
 public:
  void SetUp() override {
    if (is_iwarp(device_)) GTEST_SKIP() << "iWARP connects by the connection manager";
  }

 protected:
  [[nodiscard]] prepared_channel prepare() const {
    return pd_.create_channel({.queues = {.max_send_wr = 4, .max_recv_wr = 4}}).value();
  }
  [[nodiscard]] prepared_message_channel prepare_messages(std::uint32_t bytes = 64) const {
    return message_channel::prepare(
               pd_, {.message_bytes = bytes, .queues = {.max_send_wr = 4, .max_recv_wr = 4}})
        .value();
  }

  context device_ = open_tested();
  protection_domain pd_ = device_.allocate_pd().value();
};

TEST_F(channel_steps, channels_connect_on_one_thread_and_exchange_tokens) {
  auto [server, client] = peers::connected();
  driven one(prepare().connect_in_steps(server, long_deadline()));
  driven other(prepare().connect_in_steps(client, long_deadline()));
  drive(one, other);
  auto here = one.take();
  auto there = other.take();
  auto again = std::async(std::launch::async,
                          [&, &over = client] { return there.reconnect(over, long_deadline()); });
  EXPECT_EQ(here.reconnect(server, long_deadline()).value().peer(), reconnected_peer::same);
  EXPECT_EQ(again.get().value().peer(), reconnected_peer::same);
}

TEST_F(channel_steps, message_channels_connect_on_one_thread) {
  auto [server, client] = peers::connected();
  driven one(prepare_messages().connect_in_steps(server, long_deadline()));
  driven other(prepare_messages(128).connect_in_steps(client, long_deadline()));
  drive(one, other);
  auto here = one.take();
  auto there = other.take();
  here.send(peers::bytes_from("there"), long_deadline()).value();
  EXPECT_EQ(there.receive(long_deadline()).value().text(), "there");
}

TEST_F(channel_steps, peer_that_ends_at_any_step_ends_the_steps) {
  int failed = 0;
  for (int count = 0; count < 20; ++count) {
    std::optional streams(peers::connected());
    driven one(prepare_messages().connect_in_steps(streams->first, long_deadline()));
    driven other(prepare_messages().connect_in_steps(streams->second, long_deadline()));
    for (int i = 0; i < count; ++i) step(one, other);
    other.destroy();
    streams->second.shut_down();
    drive(one);
    if (one.outcome()) continue;
    EXPECT_EQ(one.outcome().error().code(), ECONNRESET) << one.outcome().error().message();
    ++failed;
  }
  EXPECT_GE(failed, 2);
}

TEST_F(channel_steps, garbage_ends_the_steps) {
  auto [server, raw] = peers::accepted_raw();
  driven one(prepare_messages().connect_in_steps(server, long_deadline()));
  peers::send_bytes(raw, bringup::encode_frame(bringup::frame_type::blob,
                                               peers::bytes_from("these are no terms")));
  drive(one);
  EXPECT_EQ(one.outcome().error().kind(), error_kind::protocol);
}

}  // namespace
}  // namespace verbena::test
