// SPDX-License-Identifier: MIT
// A hub that sleeps: events, arming, and completions at the moments at which they could be missed.
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/channel/channel_pair.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/channel/pending_operation.hpp"

namespace verbena::test {
namespace {

bool is_readable(int fd) {
  pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, 0) == 1;
}

/// A channel on a hub with events, and its peer without.
class sleeping_hub : public ::testing::Test {
 protected:
  void SetUp() override {
    if (is_iwarp(context_)) GTEST_SKIP() << "iWARP connects by the connection manager";
  }
  static channel connect(prepared_channel&& one, const endpoint& other) {
    return std::move(one).handshake(other).value();
  }
  [[nodiscard]] pending_operation receive() { return here_.post_receive(pool_.take(64).value()); }
  void send_from_peer() {
    EXPECT_TRUE(there_.send(inline_data(std::as_bytes(std::span("text", 4)))));
  }

  verbena::context context_ = open_tested();
  protection_domain pd_ = context_.allocate_pd().value();
  completion_hub hub_ = completion_hub::create(context_, 64, {.events = true}).value();
  buffer_pool pool_ = buffer_pool::create(pd_, {.classes = {{.bytes = 64, .count = 64}}}).value();
  prepared_channel one_ =
      pd_.create_channel(hub_, {.queues = {.max_send_wr = 16, .max_recv_wr = 16}}).value();
  prepared_channel other_ =
      pd_.create_channel({.queues = {.max_send_wr = 16, .max_recv_wr = 16, .max_inline_data = 64}})
          .value();
  endpoint ends_[2] = {one_.endpoint(), other_.endpoint()};
  channel here_ = connect(std::move(one_), ends_[1]);
  channel there_ = connect(std::move(other_), ends_[0]);
};

TEST_F(sleeping_hub, hub_without_events_only_polls) {
  const auto polled = completion_hub::create(context_, 8).value();
  EXPECT_FALSE(polled.has_events());
  EXPECT_TRUE(hub_.has_events());
  EXPECT_EQ(polled.progress().value(), 0U);
}

TEST_F(sleeping_hub, descriptor_is_readable_after_the_next_completion) {
  auto arrived = receive();
  ASSERT_TRUE(hub_.arm().value());
  EXPECT_FALSE(is_readable(hub_.fd()));
  send_from_peer();
  pollfd wanted{.fd = hub_.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&wanted, 1, 20'000), 1);
  EXPECT_EQ(hub_.progress().value(), 1U);
  EXPECT_NE(arrived.poll(), nullptr);
  ASSERT_TRUE(hub_.arm().value());
  EXPECT_FALSE(is_readable(hub_.fd())) << "arming takes the events of earlier completions";
}

TEST_F(sleeping_hub, arming_reports_completions_that_precede_it) {
  auto arrived = receive();
  send_from_peer();
  // The send completed, so the message is here; no event was requested for it.
  EXPECT_FALSE(hub_.arm().value());
  EXPECT_NE(arrived.poll(), nullptr);
  EXPECT_TRUE(hub_.arm().value());
}

TEST_F(sleeping_hub, wait_ends_at_the_deadline_without_a_completion) {
  EXPECT_EQ(hub_.wait(deadline::after(1ms)).value(), 0U);
  EXPECT_EQ(hub_.wait(deadline::after(-1ms)).value(), 0U);
}

TEST_F(sleeping_hub, no_completion_is_missed_at_any_moment) {
  const int messages = campaign_size(2000, 100'000);
  std::atomic<int> received = 0;
  std::thread peer([&] {
    for (int i = 0; i < messages; ++i) {
      while (received.load() < i) std::this_thread::yield();
      send_from_peer();
    }
  });
  for (int i = 0; i < messages; ++i) {
    auto arrived = receive();
    received.store(i);
    while (arrived.poll() == nullptr) {
      ASSERT_NE(hub_.wait(long_deadline()).value(), 0U) << "message " << i << " was missed";
    }
  }
  received.store(messages);
  peer.join();
}

}  // namespace
}  // namespace verbena::test
