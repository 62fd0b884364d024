// SPDX-License-Identifier: MIT
// Channels that the connection manager connects.
#include <gtest/gtest.h>

#include <cerrno>
#include <future>
#include <optional>
#include <utility>

#include "tests/unit/channel/channel_pair.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

constexpr cm::connection_options both_may_send{.first = cm::first_sender::answering};

// What both sides need before they are connected.
class managed_channel : public ::testing::Test {
 protected:
  managed_channel()
      : door_(manager_.open()),
        peer_(manager_.find(door_.port())),
        pd_(peer_.context().value().allocate_pd().value()),
        pool_(buffer_pool::create(pd_, {}).value()) {}

  [[nodiscard]] prepared_channel prepare() const {
    return pd_.create_channel({.max_send_wr = 4, .max_recv_wr = 4, .port = peer_.port()}).value();
  }
  [[nodiscard]] buffer memory() const { return std::move(*pool_.take(1)); }
  // Posts a receive whose handle is then in `kept`.
  [[nodiscard]] channel_preparation receives_into(std::optional<pending_operation>& kept) const {
    return [this, &kept](channel& made) -> result<void> {
      kept.emplace(made.post_receive(memory()));
      return {};
    };
  }
  [[nodiscard]] connected_channels connect(const channel_preparation& asking = {},
                                           const channel_preparation& answering = {}) {
    auto asked = std::async(std::launch::async, [&] {
      return prepare().connect(peer_, both_may_send, patiently(), asking);
    });
    auto answered =
        prepare().accept(door_.accept(patiently()).value(), both_may_send, patiently(), answering);
    return {asked.get().value(), std::move(answered).value()};
  }

  tested_manager manager_;
  cm::listener door_;
  cm::connector peer_;
  protection_domain pd_;
  buffer_pool pool_;
};

TEST_F(managed_channel, receives_before_the_peer_may_send) {
  std::optional<pending_operation> first;
  std::optional<pending_operation> second;
  auto [a, b] = connect(receives_into(first), receives_into(second));
  EXPECT_EQ(a.in_flight(), 1U);
  ASSERT_TRUE(*b.post_send(memory(), {.length = 10}).wait(patiently()));
  ASSERT_TRUE(*a.post_send(memory(), {.length = 20}).wait(patiently()));
  ASSERT_NE(first->wait(patiently()), nullptr);
  ASSERT_NE(second->wait(patiently()), nullptr);
  EXPECT_EQ(first->poll()->byte_length(), 10U);
  EXPECT_EQ(second->poll()->byte_length(), 20U);
  ASSERT_NE(a.connection(), nullptr);
  EXPECT_EQ(a.connection()->peer_address()->port(), door_.port());
  EXPECT_EQ(a.query().value().max_send_wr, 4U);
}

TEST_F(managed_channel, says_that_the_peer_closed) {
  std::optional<pending_operation> receive;
  auto ends = connect(receives_into(receive));
  EXPECT_FALSE(ends.asking.connection()->is_disconnected().value());
  {
    const channel gone = std::move(ends.answering);
  }
  EXPECT_TRUE(ends.asking.connection()->wait_disconnected(patiently()).value());
  ends.asking.flush();
  ASSERT_NE(receive->poll(), nullptr);
  EXPECT_EQ(receive->poll()->completion()->status(), completion_status::flushed);
  receive->take_buffer().reset();
  EXPECT_EQ(pool_.taken(), 0U);
}

TEST_F(managed_channel, gives_back_what_was_posted_before_it_could_not_be_connected) {
  std::optional<pending_operation> kept;
  const auto fails = [&](channel& made) -> result<void> {
    kept.emplace(made.post_receive(memory()));
    auto dropped = made.post_receive(memory());
    return error::invalid_argument("test", {}, "not today");
  };
  auto asked = std::async(std::launch::async, [&] {
    return prepare().connect(peer_, both_may_send, patiently(), fails);
  });
  auto answered = prepare().accept(door_.accept(patiently()).value(), both_may_send, patiently());
  expect_error(asked.get(), "not today");
  EXPECT_FALSE(answered.has_value());
  ASSERT_TRUE(kept);
  ASSERT_NE(kept->poll(), nullptr);
  EXPECT_EQ(kept->poll()->end(), operation_end::lost);
  EXPECT_EQ(kept->poll()->code(), EINVAL);
  kept->take_buffer().reset();
  EXPECT_EQ(pool_.taken(), 0U);
}

TEST_F(managed_channel, is_refused_by_who_drops_the_request) {
  auto asked =
      std::async(std::launch::async, [&] { return prepare().connect(peer_, {}, patiently()); });
  {
    auto dropped = door_.accept(patiently()).value();
  }
  const auto refused = asked.get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ECONNREFUSED);
}

}  // namespace
}  // namespace verbena::test
