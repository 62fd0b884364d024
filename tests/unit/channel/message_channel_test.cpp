// SPDX-License-Identifier: MIT
// Message channels: bytes, windows, credits, signaled sends, memory.
#include "verbena/channel/message_channel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <deque>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/channel/message_pair.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;

deadline soon() { return deadline::after(20s); }
constexpr std::array<std::byte, 256> some_bytes{};

// Sends until a send is refused; returns the number of accepted sends. On a slow device, waits
// until completed sends have left the queue.
int fill(message_channel& by, send_refusal expected) {
  for (int sent = 0;;) {
    const auto outcome = by.try_send(some_bytes);
    if (outcome) {
      ++sent;
      continue;
    }
    if (outcome.refusal() == send_refusal::queue_full && expected == send_refusal::no_credit)
      continue;
    EXPECT_EQ(outcome.refusal(), expected);
    EXPECT_EQ(outcome.code(), EAGAIN);
    EXPECT_TRUE(outcome.is_retryable());
    return sent;
  }
}

TEST(message_channel, carries_messages_of_all_lengths_in_order_and_unchanged) {
  message_pair pair({.message_bytes = 256, .queues = {.max_send_wr = 16, .max_recv_wr = 16}});
  EXPECT_TRUE(pair.a().uses_credits());
  EXPECT_EQ(pair.a().message_bytes(), 256U);
  known_stream to_b(campaign_seed(1), 1000);
  while (!to_b.all_arrived()) {
    while (!to_b.all_sent() && to_b.send(pair.a())) {
    }
    while (auto message = pair.b().try_receive()) to_b.take(*message);
  }
  EXPECT_TRUE(pair.a().drain(soon()));
  EXPECT_EQ(pair.a().delivered(), 1000U);
  EXPECT_EQ(pair.a().unknown().count, 0U);
  EXPECT_EQ(pair.b().received(), 1000U);
  const auto& counters = pair.a().counters();
  EXPECT_GT(counters.inlined, 0U);
  EXPECT_GT(counters.copied, 0U);
  EXPECT_EQ(counters.bad_credits, 0U);
}

TEST(message_channel, smallest_windows_make_progress_in_both_directions) {
  for (const std::uint32_t window : {1U, 2U, 3U, 5U}) {
    for (const std::uint32_t inline_bytes : {0U, 64U}) {
      SCOPED_TRACE(window);
      auto options = tiny(window);
      options.inline_bytes = inline_bytes;
      message_pair pair(options);
      std::minstd_rand random(campaign_seed(window));
      const auto count = static_cast<std::uint64_t>(campaign_size(300, 5000));
      std::array<known_stream, 2> streams{known_stream(11, count), known_stream(12, count)};
      std::array<message_channel*, 2> sides{&pair.a(), &pair.b()};
      for (auto until = soon(); !(streams[0].all_arrived() && streams[1].all_arrived());) {
        ASSERT_FALSE(until.expired());
        const auto who = random() % 2;
        switch (random() % 4) {
          case 0:
          case 1:
            if (!streams[who].all_sent()) static_cast<void>(streams[who].send(*sides[who]));
            break;
          case 2:
            if (auto message = sides[who]->try_receive()) {
              streams[1 - who].take(*message);
              until = soon();
            }
            break;
          default:
            sides[who]->progress();
        }
      }
      for (message_channel* const side : sides) {
        EXPECT_TRUE(side->drain(soon()));
        EXPECT_EQ(side->failure(), nullptr);
        EXPECT_EQ(side->counters().bad_credits, 0U);
      }
    }
  }
}

TEST(message_channel, two_threads_flood_both_directions) {
  message_pair pair(tiny(4));
  const auto count = static_cast<std::uint64_t>(campaign_size(500, 20000));
  const auto run = [&](message_channel& own, std::uint32_t to, std::uint32_t from) {
    known_stream out(to, count);
    known_stream in(from, count);
    for (auto until = soon(); !(out.all_sent() && in.all_arrived()) && !until.expired();) {
      if (!out.all_sent()) static_cast<void>(out.send(own));
      if (auto message = own.try_receive()) {
        in.take(*message);
        until = soon();
      }
    }
    EXPECT_TRUE(in.all_arrived());
    EXPECT_TRUE(own.drain(soon()));
  };
  std::thread peer([&] { run(pair.b(), 22, 21); });
  run(pair.a(), 21, 22);
  peer.join();
  EXPECT_EQ(pair.a().failure(), nullptr);
  EXPECT_EQ(pair.b().failure(), nullptr);
}

TEST(message_channel, with_credits_no_rnr_error_occurs) {
  message_pair pair(tiny(8));
  EXPECT_EQ(fill(pair.a(), send_refusal::no_credit), 8);
  EXPECT_GE(pair.a().counters().credit_waits, 1U);
  for (int i = 0; i < 100; ++i) pair.a().progress();  // b does not poll
  EXPECT_TRUE(pair.a().drain(soon()));
  EXPECT_EQ(pair.a().failure(), nullptr);
  EXPECT_EQ(pair.a().delivered(), 8U);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(pair.b().receive(soon()));
  pair.b().progress();
  EXPECT_TRUE(pair.a().send(some_bytes, soon()));
  int sent = 1;
  for (const auto until = soon(); sent < 8 && !until.expired(); pair.b().progress())
    sent += fill(pair.a(), send_refusal::no_credit);
  EXPECT_EQ(sent, 8);
  EXPECT_EQ(fill(pair.a(), send_refusal::no_credit), 0);
  EXPECT_GE(pair.b().counters().credit_writes, 2U);
  EXPECT_LE(pair.b().counters().credit_writes, 8U);
  EXPECT_LT(pair.b().counters().receive_doorbells, 8U);
}

TEST(message_channel, without_credits_rnr_error_is_reported) {
  auto options = tiny(8);
  options.credits = credits::off;
  message_pair pair(options);
  EXPECT_FALSE(pair.a().uses_credits());
  const auto until = soon();
  while (pair.a().failure() == nullptr && !until.expired())
    static_cast<void>(pair.a().try_send(some_bytes));
  const auto* const failure = pair.a().failure();
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->part, failed_part::message);
  ASSERT_TRUE(failure->done.has_value());
  EXPECT_EQ(failure->done->status(), completion_status::rnr_retries_exceeded);
  EXPECT_EQ(failure->message, 9U);
  EXPECT_EQ(pair.a().delivered(), 8U);
  EXPECT_EQ(pair.a().unknown(), (message_range{9, pair.a().sent() - 8}));
  EXPECT_EQ(pair.a().try_send(some_bytes).refusal(), send_refusal::ended);
  const auto words = pair.a().describe().message();
  EXPECT_NE(words.find("messages 9 to "), std::string::npos) << words;
  // Only the messages that arrived are available.
  int arrived = 0;
  while (pair.b().try_receive()) ++arrived;
  EXPECT_EQ(arrived, 8);
}

TEST(message_channel, send_with_full_queue_is_refused) {
  auto options = tiny(4);
  options.credits = credits::off;
  options.reliability.rnr_retry_count = 7;
  message_pair pair(options);
  const auto until = soon();
  do {
    fill(pair.a(), send_refusal::queue_full);
  } while (pair.a().sent() < 8 && !until.expired());
  const auto sent = pair.a().sent();
  EXPECT_GE(sent, 8U);  // 4 arrived, 4 are in flight
  std::uint64_t arrived = 0;
  while (arrived < sent && !until.expired()) {
    if (pair.b().try_receive()) ++arrived;
    pair.a().progress();
  }
  EXPECT_EQ(arrived, sent);
  EXPECT_TRUE(pair.a().send(some_bytes, soon()));
}

TEST(message_channel, kept_messages_stop_the_peer) {
  auto options = tiny(4);
  options.receive_buffers = 4;
  message_pair pair(options);
  fill(pair.a(), send_refusal::no_credit);
  std::deque<received_message> kept;
  for (int i = 0; i < 4; ++i) {
    auto message = pair.b().receive(soon());
    ASSERT_TRUE(message);
    kept.push_back(std::move(*message));
  }
  EXPECT_FALSE(pair.b().try_receive());
  EXPECT_GE(pair.b().counters().empty_pools, 1U);
  EXPECT_EQ(pair.b().receive_pool().taken(), 4U);
  EXPECT_EQ(fill(pair.a(), send_refusal::no_credit), 0);
  // A send that times out reports the reason, and the channel still works.
  const auto late = pair.a().send(some_bytes, deadline::after(1ms));
  EXPECT_EQ(late.refusal(), send_refusal::no_credit);
  EXPECT_EQ(late.code(), ETIMEDOUT);
  // Each message that is destroyed, on any thread, permits one more.
  std::thread([message = std::move(kept.front())] {}).join();
  kept.pop_front();
  pair.b().progress();
  EXPECT_TRUE(pair.a().send(some_bytes, soon()));
  EXPECT_EQ(fill(pair.a(), send_refusal::no_credit), 0);
  EXPECT_TRUE(pair.b().receive(soon()));
  kept.clear();
  pair.b().progress();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(pair.a().send(some_bytes, soon()));
  EXPECT_EQ(fill(pair.a(), send_refusal::no_credit), 0);
}

TEST(message_channel, few_sends_are_signaled_and_drain_confirms_the_last) {
  message_pair pair({.message_bytes = 256, .queues = {.max_send_wr = 64, .max_recv_wr = 64}});
  for (int i = 0; i < 10; ++i) {
    auto memory = pair.a().take_buffer();
    ASSERT_TRUE(memory);
    ASSERT_TRUE(pair.a().try_send(std::move(*memory)));
  }
  EXPECT_EQ(pair.a().counters().signaled, 0U);
  EXPECT_EQ(pair.a().delivered(), 0U);
  EXPECT_TRUE(pair.a().drain(soon()));
  EXPECT_EQ(pair.a().delivered(), 10U);
  EXPECT_EQ(pair.a().counters().signaled, 1U);
  EXPECT_EQ(pair.a().counters().tail_writes, 1U);
  // Without a wait, polls of an empty queue also request the completion.
  ASSERT_TRUE(pair.a().try_send(some_bytes));
  const auto until = soon();
  while (pair.a().delivered() < 11 && !until.expired()) pair.a().progress();
  EXPECT_EQ(pair.a().delivered(), 11U);
  for (int sent = 0; sent < 1000 && !until.expired();) {
    if (pair.a().try_send(std::span(some_bytes).first(8))) ++sent;
    while (pair.b().try_receive()) {
    }
  }
  EXPECT_EQ(pair.a().sent(), 1011U);
  EXPECT_TRUE(pair.a().drain(soon()));
  const auto& counted = pair.a().counters();
  EXPECT_LE(counted.signaled - counted.tail_writes - counted.credit_probes, 1000U / 16 + 8);
}

TEST(message_channel, take_buffer_waits_for_buffers_in_flight) {
  message_pair pair(
      {.message_bytes = 256, .queues = {.max_send_wr = 64, .max_recv_wr = 64}, .send_buffers = 2});
  for (int i = 0; i < 30; ++i) {
    auto memory = pair.a().take_buffer(soon());
    ASSERT_TRUE(memory);
    ASSERT_TRUE(pair.a().try_send(std::move(*memory)));
  }
  auto one = pair.a().take_buffer(soon());
  auto two = pair.a().take_buffer(soon());
  EXPECT_EQ(pair.a().try_send(some_bytes).refusal(), send_refusal::no_buffer);
  EXPECT_FALSE(pair.a().take_buffer(deadline::after(0ms)));
  EXPECT_TRUE(pair.a().try_send(std::span(some_bytes).first(8)));
}

TEST(message_channel, received_message_is_forwarded_without_copy) {
  message_pair pair(tiny(4));
  ASSERT_TRUE(pair.a().send(known_message(5, 1, 256).bytes(), soon()));
  auto there = pair.b().receive(soon());
  ASSERT_TRUE(there);
  const auto length = there->length();
  ASSERT_TRUE(pair.b().send(std::move(*there).take_buffer(), {.length = length}, soon()));
  const auto back = pair.a().receive(soon());
  ASSERT_TRUE(back);
  EXPECT_TRUE(std::ranges::equal(back->bytes(), known_message(5, 1, 256).bytes()));
}

TEST(message_channel, invalid_message_is_refused) {
  message_pair pair({.message_bytes = 300}, {.message_bytes = 200});
  EXPECT_EQ(pair.a().message_bytes(), 200U);
  const auto long_one = pair.a().try_send(some_bytes);
  EXPECT_EQ(long_one.refusal(), send_refusal::too_long);
  EXPECT_EQ(long_one.code(), EMSGSIZE);
  EXPECT_FALSE(long_one.is_retryable());
  EXPECT_NE(long_one.error().message().find("message_bytes"), std::string::npos);
  auto other = pair.context().allocate_pd().value();
  auto foreign = buffer::of(other.allocate(64, access::local_write).value());
  EXPECT_EQ(pair.a().try_send(std::move(foreign)).refusal(), send_refusal::foreign_domain);
  EXPECT_FALSE(
      foreign.empty());  // NOLINT(bugprone-use-after-move,*.Move): refused, so it stays ours
}

TEST(message_channel, receives_use_a_pool_of_the_program) {
  auto context = open_tested();
  auto pd = context.allocate_pd().value();
  const auto pool = buffer_pool::create(pd, {.classes = {{.bytes = 512, .count = 8}}}).value();
  const message_channel_options options{.message_bytes = 256,
                                        .queues = {.max_send_wr = 4, .max_recv_wr = 4}};
  auto prepared = message_channel::prepare(pd, pool, options).value();
  const auto self = prepared.endpoint();
  auto alone = std::move(prepared).handshake(self).value();
  EXPECT_EQ(pool.taken(), 4U);
  ASSERT_TRUE(alone.try_send(some_bytes));
  EXPECT_TRUE(alone.receive(soon()));
  const message_channel_options greedy{.message_bytes = 256, .queues = {.max_recv_wr = 64}};
  auto other = message_channel::prepare(pd, pool, greedy).value();
  const auto itself = other.endpoint();
  testing_support::expect_error(std::move(other).handshake(itself), "too few free buffers");
  testing_support::expect_error(message_channel::prepare(pd, pool, {.message_bytes = 513}),
                                "the pool for receives");
}

TEST(message_channel, connects_over_a_stream) {
  auto listening = bringup::listener::open({.host = "127.0.0.1"}).value();
  auto pd = open_tested().allocate_pd().value();
  std::thread answering([&] {
    auto peer = listening.accept(soon()).value();
    auto b = message_channel::prepare(pd, tiny(2)).value().connect(peer, soon()).value();
    EXPECT_TRUE(b.send(some_bytes, soon()));
    EXPECT_TRUE(b.receive(soon()));
    EXPECT_TRUE(b.drain(soon()));
  });
  auto peer = bringup::stream::connect(listening.local_address(), soon()).value();
  auto a = message_channel::prepare(pd, tiny(2)).value().connect(peer, soon()).value();
  EXPECT_TRUE(a.send(some_bytes, soon()));
  EXPECT_TRUE(a.receive(soon()));
  answering.join();
}

// listen_once() has no deadline: a peer that sends nothing must not block it.
TEST(message_channel, listening_ends_if_the_peer_does_not_negotiate) {
  const auto at = bringup::listener::open({.host = "127.0.0.1"}).value().local_address();
  std::promise<void> ended;
  std::thread stalling([&] {
    const auto limit = soon();
    auto peer = bringup::stream::connect(at, limit);
    while (!peer && peer.error().code() == ECONNREFUSED && !limit.expired()) {  // not yet listening
      std::this_thread::yield();
      peer = bringup::stream::connect(at, limit);
    }
    ended.get_future().wait();
  });
  const auto made = message_channel::listen_once(to_string(at));
  ended.set_value();
  stalling.join();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), error_kind::timed_out) << made.error().message();
}

TEST(message_channel_death, missing_message_stops_the_program) {
  message_pair pair;
  const auto none = pair.a().receive(deadline::after(0ms));
  ASSERT_TRUE(none.timed_out());
  EXPECT_DEATH(static_cast<void>(*none), "a receive_result without a message was dereferenced");
  EXPECT_DEATH(static_cast<void>(none->text()), "a receive_result without a message");
}

TEST(message_channel, connects_by_the_connection_manager) {
  const tested_manager manager;
  auto listener = manager.open();
  auto peer = manager.find(listener.port());
  auto pd = peer.context().value().allocate_pd().value();
  const auto exchange = [](message_channel& own) {
    EXPECT_TRUE(own.uses_credits());
    EXPECT_EQ(own.message_bytes(), 256U);
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(own.send(some_bytes, soon()));
      EXPECT_TRUE(own.receive(soon()));
    }
    EXPECT_TRUE(own.drain(soon()));
  };
  std::promise<void> both_done;
  std::thread answering([&] {
    auto prepared = message_channel::prepare(pd, tiny(2)).value();
    auto b = std::move(prepared).accept(listener.accept(soon()).value(), soon()).value();
    exchange(b);
    both_done.get_future().wait();
  });
  auto a = message_channel::prepare(pd, tiny(2, 512)).value().connect(peer, soon()).value();
  exchange(a);
  both_done.set_value();
  answering.join();
}

TEST(message_channel, is_made_on_one_thread_and_used_on_another) {
  std::unique_ptr<message_pair> pair;
  std::thread([&] { pair = std::make_unique<message_pair>(tiny(2)); }).join();
  ASSERT_TRUE(pair->a().try_send(some_bytes));
  EXPECT_TRUE(pair->b().receive(soon()));
  EXPECT_EQ(pair->a().failure(), nullptr);
}

TEST(message_channel, receive_past_its_deadline_reports_timed_out_and_leaves_channel_intact) {
  message_pair pair;
  for (int i = 0; i < 3; ++i) {
    const auto none = pair.b().receive(deadline::after(std::chrono::milliseconds(1)));
    EXPECT_FALSE(none);
    EXPECT_TRUE(none.timed_out());
    EXPECT_EQ(none.error().kind(), error_kind::timed_out);
  }
  ASSERT_EQ(pair.b().failure(), nullptr);
  pair.a().send(bytes_of("hello")).value();
  EXPECT_EQ(pair.b().receive().value().text(), "hello");
}

TEST(message_channel, receive_on_an_ended_channel_reports_its_failure) {
  message_pair pair;
  pair.b().flush();
  const auto none = pair.b().receive();
  ASSERT_FALSE(none);
  EXPECT_FALSE(none.timed_out());
  EXPECT_NE(none.error().message().find("message_channel::flush"), std::string::npos)
      << none.error().message();
}

TEST(message_channel, to_string_has_queue_pair_and_counts) {
  message_pair pair;
  pair.a().send(bytes_of("hello")).value();
  ASSERT_TRUE(pair.a().drain());
  const std::string text = to_string(pair.a());
  EXPECT_NE(text.find(pair.a().qp()->name()), std::string::npos) << text;
  EXPECT_NE(text.find("1 sent, 1 delivered, 0 received"), std::string::npos) << text;
  pair.a().flush();
  EXPECT_NE(to_string(pair.a()).find("ended"), std::string::npos);
}

}  // namespace
}  // namespace verbena::test
