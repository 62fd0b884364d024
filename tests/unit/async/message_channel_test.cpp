// SPDX-License-Identifier: MIT
// Awaited messages: order, back-pressure, deadlines, the end of the channel, and sleeping.
#include "verbena/async/message_channel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <coroutine>
#include <cstring>
#include <exception>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/async/token_env.hpp"
#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/channel/message_pair.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/async/execution.hpp"
#include "verbena/async/scope.hpp"
#include "verbena/async/task.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;
using async::task;

constexpr std::array<std::byte, 200> bytes_of_async{};

/// Two message channels on one engine, connected to each other.
class async_messages : public ::testing::Test {
 public:
  void SetUp() override {
    if (is_iwarp(context)) GTEST_SKIP() << "iWARP connects by the connection manager";
    connect(tiny(4));
  }
  void connect(const message_channel_options& options) {
    auto one = message_channel::prepare(pd, engine.hub(), options).value();
    auto other = message_channel::prepare(pd, engine.hub(), options).value();
    const auto ends = std::pair(one.endpoint(), other.endpoint());
    a.emplace(engine, std::move(one).handshake(ends.second).value());
    b.emplace(engine, std::move(other).handshake(ends.first).value());
  }
  [[nodiscard]] static std::span<const std::byte> bytes_of(const std::uint64_t& number) {
    return std::as_bytes(std::span(&number, 1));
  }
  [[nodiscard]] static std::uint64_t number_in(const received_message& message) {
    std::uint64_t number = 0;
    EXPECT_EQ(message.length(), sizeof number);
    std::memcpy(&number, message.bytes().data(), sizeof number);
    return number;
  }
  // Uses all credits of `a`.
  void exhaust() const {
    const auto until = deadline::after(20s);
    while (a->get().try_send(bytes_of_async).refusal() != send_refusal::no_credit)
      ASSERT_FALSE(until.expired());
  }

  verbena::context context = open_tested();
  protection_domain pd = context.allocate_pd().value();
  async::engine engine = async::engine::create(context, {.spin = 0ns}).value();
  std::optional<async::message_channel> a;
  std::optional<async::message_channel> b;
};

TEST_F(async_messages, arrive_in_order_in_both_directions_through_small_windows) {
  for (const std::uint32_t window : {1U, 2U, 5U}) {
    connect(tiny(window));
    engine.run([](async_messages& of) -> task<void> {
      constexpr std::uint64_t count = 300;
      const auto send = [](async::message_channel& by) -> task<void> {
        for (std::uint64_t i = 1; i <= count; ++i) {
          const auto sent = co_await by.send(bytes_of(i));
          EXPECT_EQ(sent.value(), i);
        }
        EXPECT_TRUE(co_await by.drain());
        EXPECT_EQ(by.get().delivered(), by.get().sent());
      };
      const auto receive = [](async::message_channel& by) -> task<void> {
        for (std::uint64_t i = 1; i <= count; ++i)
          EXPECT_EQ(number_in((co_await by.receive()).value()), i);
      };
      async::scope running;
      running.spawn(send(*of.a));
      running.spawn(send(*of.b));
      running.spawn(receive(*of.a));
      running.spawn(receive(*of.b));
      co_await running.join();
    }(*this));
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(async_messages, coroutines_send_and_receive_in_the_order_of_their_calls) {
  std::vector<std::uint64_t> sent;
  std::vector<std::uint64_t> received(100);
  engine.run([](async_messages& of, std::vector<std::uint64_t>& begun,
                std::vector<std::uint64_t>& in) -> task<void> {
    const auto send = [&](std::uint64_t number) -> task<void> {
      EXPECT_TRUE(co_await of.a->send(bytes_of(number)));
      begun.push_back(number);
    };
    const auto receive = [&](std::size_t who) -> task<void> {
      in[who] = number_in((co_await of.b->receive()).value());
    };
    async::scope running;
    for (std::uint64_t i = 0; i < 50; ++i) running.spawn(send(i));
    for (std::size_t i = 0; i < 100; ++i) running.spawn(receive(i));
    for (std::uint64_t i = 50; i < 100; ++i) running.spawn(send(i));
    co_await running.join();
  }(*this, sent, received));
  ASSERT_EQ(sent.size(), 100U);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(sent[i], i);
    EXPECT_EQ(received[i], i);
  }
}

TEST_F(async_messages, buffer_is_sent_without_a_copy_and_kept_if_it_is_refused) {
  engine.run([](async_messages& of) -> task<void> {
    auto outbox = of.a->get().take_buffer().value();
    outbox.bytes()[0] = std::byte{9};
    EXPECT_TRUE(co_await of.a->send(outbox, {.length = 1}));
    EXPECT_TRUE(outbox.empty());
    const auto message = (co_await of.b->receive()).value();
    EXPECT_EQ(message.bytes()[0], std::byte{9});
    EXPECT_EQ(of.a->get().counters().copied, 0U);
    auto next = of.a->get().take_buffer().value();
    of.exhaust();
    const auto refused = co_await of.a->send(next, {}, deadline::after(2ms));
    EXPECT_EQ(refused.refusal(), send_refusal::no_credit);
    EXPECT_EQ(refused.code(), ETIMEDOUT);
    EXPECT_FALSE(next.empty());
  }(*this));
}

TEST_F(async_messages, deadline_that_passes_leaves_the_channel_and_messages_unaffected) {
  engine.run([](async_messages& of) -> task<void> {
    const auto none = co_await of.b->receive(deadline::after(2ms));
    EXPECT_TRUE(none.timed_out());
    EXPECT_TRUE((co_await of.b->receive(deadline::after(-1ms))).timed_out());
    EXPECT_EQ(of.b->get().failure(), nullptr);
    EXPECT_TRUE(co_await of.a->send(bytes_of(5)));
    EXPECT_EQ(number_in((co_await of.b->receive(deadline::after(20s))).value()), 5U);
    of.exhaust();
    const auto late = co_await of.a->send(bytes_of(6), deadline::after(2ms));
    EXPECT_EQ(late.code(), ETIMEDOUT);
    while (co_await of.b->receive(deadline::after(2ms))) {
    }
    EXPECT_TRUE(co_await of.a->send(bytes_of(7), deadline::after(20s)));
    EXPECT_EQ(number_in((co_await of.b->receive()).value()), 7U);
  }(*this));
}

TEST_F(async_messages, operation_whose_deadline_has_passed_does_not_overtake_those_that_wait) {
  engine.run([](async_messages& of) -> task<void> {
    std::optional<std::uint64_t> first;
    const auto receive = [&]() -> task<void> {
      const auto message = co_await of.b->receive(deadline::after(20s));
      if (message) first = number_in(*message);
    };
    async::scope running;
    running.spawn(receive());
    EXPECT_TRUE(co_await of.a->send(bytes_of(7)));
    const auto until = deadline::after(10s);
    while (!first && !until.expired()) {
      const auto late = co_await of.b->receive(deadline::after(0s));
      EXPECT_TRUE(late.timed_out());
      co_await of.engine.yield();
    }
    EXPECT_EQ(first, 7U);
    co_await running.join();
  }(*this));
  ASSERT_FALSE(HasFailure());
  engine.run([](async_messages& of) -> task<void> {
    of.exhaust();
    const auto send = [&]() -> task<void> { EXPECT_TRUE(co_await of.a->send(bytes_of(8))); };
    async::scope running;
    running.spawn(send());
    const auto late = co_await of.a->send(bytes_of(9), deadline::after(0s));
    EXPECT_EQ(late.code(), ETIMEDOUT);
    while (running.running() != 0) static_cast<void>(co_await of.b->receive());
  }(*this));
}

// The first coroutine was woken but has not run when the others begin to receive.
TEST_F(async_messages, receives_whose_deadlines_have_passed_take_all_messages_that_have_arrived) {
  constexpr std::uint64_t count = 40;  // more than the polls between two checks of the timers
  connect(tiny(count));
  std::vector<std::uint64_t> received;
  engine.run([](async_messages& of, std::vector<std::uint64_t>& in) -> task<void> {
    const auto receive = [&](deadline until) -> task<void> {
      const auto message = co_await of.b->receive(until);
      EXPECT_EQ(message.has_value(), in.size() < count) << in.size();
      if (message) in.push_back(number_in(*message));
    };
    async::scope running;
    running.spawn(receive(deadline::never()));
    for (std::uint64_t i = 0; i < count; ++i) EXPECT_TRUE(of.a->get().try_send(bytes_of(i)));
    const auto until = deadline::after(20s);
    while (of.b->get().received() < count && !until.expired()) of.b->get().progress();
    // One more than there are messages.
    for (std::uint64_t i = 0; i < count; ++i) running.spawn(receive(deadline::at({})));
    co_await running.join();
  }(*this, received));
  ASSERT_EQ(received.size(), count);
  for (std::uint64_t i = 0; i < count; ++i) EXPECT_EQ(received[i], i);
}

TEST_F(async_messages, sender_without_credit_continues_when_the_peer_receives) {
  engine.run([](async_messages& of) -> task<void> {
    of.exhaust();
    const auto send = [&]() -> task<void> { EXPECT_TRUE(co_await of.a->send(bytes_of(1))); };
    async::scope running;
    running.spawn(send());
    for (int i = 0; i < 100; ++i) co_await of.engine.yield();
    EXPECT_EQ(of.a->get().sent(), 4U);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(co_await of.b->receive(deadline::after(20s)));
    co_await running.join();
    EXPECT_EQ(of.a->get().counters().credit_waits, 2U);  // including one of exhaust()
  }(*this));
}

// The first sender uses up the only new credit, so the second never tries to send.
TEST_F(async_messages, second_sender_without_credit_posts_probes) {
  connect(tiny(1));
  engine.run([](async_messages& of) -> task<void> {
    of.exhaust();
    const auto send = [&]() -> task<void> { EXPECT_TRUE(co_await of.a->send(bytes_of(1))); };
    async::scope running;
    running.spawn(send());
    running.spawn(send());
    EXPECT_TRUE(co_await of.b->receive(deadline::after(20s)));
    const auto until = deadline::after(20s);
    while (of.a->get().sent() < 2 && !until.expired()) co_await of.engine.yield();
    EXPECT_EQ(of.a->get().sent(), 2U);
    const auto before = of.a->get().counters().credit_probes;
    while (of.a->get().counters().credit_probes == before && !until.expired())
      co_await of.engine.wait_until(deadline::after(10ms));
    EXPECT_GT(of.a->get().counters().credit_probes, before);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(co_await of.b->receive(deadline::after(20s)));
    co_await running.join();
  }(*this));
}

TEST_F(async_messages, destroyed_channel_ends_all_operations_that_wait) {
  int ended = 0;
  engine.run([](async_messages& of, int& count) -> task<void> {
    of.exhaust();
    const auto receive = [&]() -> task<void> {
      const auto outcome = co_await of.a->receive();
      EXPECT_FALSE(outcome);
      EXPECT_FALSE(outcome.timed_out());
      EXPECT_NE(outcome.error().message().find("the channel was destroyed"), std::string::npos);
      ++count;
    };
    const auto send = [&]() -> task<void> {
      EXPECT_EQ((co_await of.a->send(bytes_of(1))).refusal(), send_refusal::ended);
      ++count;
    };
    async::scope running;
    for (int i = 0; i < 3; ++i) {
      running.spawn(receive());
      running.spawn(send());
    }
    of.a.reset();
    co_await running.join();
  }(*this, ended));
  EXPECT_EQ(ended, 6);
}

TEST_F(async_messages, failure_ends_all_operations_that_wait) {
  int ended = 0;
  engine.run([](async_messages& of, int& count) -> task<void> {
    of.exhaust();
    const auto receive = [&]() -> task<void> {
      EXPECT_EQ((co_await of.a->receive()).error().code(), ESHUTDOWN);
      ++count;
    };
    const auto send = [&]() -> task<void> {
      EXPECT_EQ((co_await of.a->send(bytes_of(1))).refusal(), send_refusal::ended);
      ++count;
    };
    async::scope running;
    for (int i = 0; i < 3; ++i) {
      running.spawn(receive());
      running.spawn(send());
    }
    of.a->get().flush();
    EXPECT_FALSE(co_await of.a->drain() && of.a->get().failure() == nullptr);
    co_await running.join();
  }(*this, ended));
  EXPECT_EQ(ended, 6);
}

TEST_F(async_messages, messages_that_arrived_are_received_after_a_failure) {
  engine.run([](async_messages& of) -> task<void> {
    for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_TRUE(co_await of.a->send(bytes_of(i)));
    EXPECT_TRUE(co_await of.a->drain());
    while (of.b->get().received() < 3) co_await of.engine.yield();
    of.b->get().flush();
    for (std::uint64_t i = 1; i <= 3; ++i)
      EXPECT_EQ(number_in((co_await of.b->receive()).value()), i);
    EXPECT_FALSE(co_await of.b->receive());
  }(*this));
}

TEST_F(async_messages, lost_peer_ends_a_sender_that_sleeps) {
  auto options = tiny(4);
  options.reliability.timeout = ack_timeout::at_least(1ms);
  options.reliability.retry_count = 1;
  connect(options);
  engine.run([](async_messages& of) -> task<void> {
    of.exhaust();
    EXPECT_TRUE(co_await of.a->drain());
    of.b.reset();
    const auto refused = co_await of.a->send(bytes_of_async, deadline::after(20s));
    EXPECT_EQ(refused.refusal(), send_refusal::ended);
  }(*this));
}

TEST_F(async_messages, channel_can_be_taken_back) {
  engine.run([](async_messages& of) -> task<void> {
    EXPECT_TRUE(co_await of.a->send(bytes_of(3)));
    auto plain = std::move(*of.b).release();
    of.b.reset();
    const auto message = plain.receive(deadline::after(20s));
    EXPECT_EQ(number_in(*message), 3U);
    of.b.emplace(of.engine, std::move(plain));
    EXPECT_TRUE(co_await of.b->send(bytes_of(4)));
    EXPECT_EQ(number_in((co_await of.a->receive()).value()), 4U);
  }(*this));
}

TEST_F(async_messages, channel_taken_back_from_a_waiting_operation_can_be_used_again) {
  engine.run([](async_messages& of) -> task<void> {
    const auto refused = [](async::message_channel& from) -> task<void> {
      const auto received = co_await from.receive();
      EXPECT_FALSE(received);
      EXPECT_EQ(received.error().code(), ENOTCONN);
    };
    const auto received = [](async::message_channel& from) -> task<void> {
      EXPECT_EQ(number_in((co_await from.receive(deadline::after(20s))).value()), 3U);
    };
    async::scope before;
    before.spawn(refused(*of.b));
    auto plain = std::move(*of.b).release();
    co_await before.join();
    of.b.emplace(of.engine, std::move(plain));
    async::scope after;
    after.spawn(received(*of.b));
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(co_await of.a->send(bytes_of(3)));
    co_await after.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s) << "not woken by the message";
  }(*this));
}

/// A coroutine that can be destroyed while it waits.
struct abandoned {
  struct promise_type {
    abandoned get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    [[nodiscard]] std::suspend_never initial_suspend() const noexcept { return {}; }
    [[nodiscard]] std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

TEST_F(async_messages, coroutine_that_is_destroyed_while_it_waits_leaves_its_message_to_the_next) {
  int ended = 0;
  const auto receive = [&](std::uint64_t expected) -> abandoned {
    EXPECT_EQ(number_in((co_await b->receive()).value()), expected);
    ++ended;
  };
  // The second has its turn when it is destroyed, the third waits.
  const std::array waiting{receive(0), receive(1), receive(2), receive(1), receive(2)};
  waiting[0].handle.destroy();
  const std::uint64_t first = 1;
  const std::uint64_t second = 2;
  ASSERT_TRUE(a->get().try_send(bytes_of(first)));
  const auto until = deadline::after(20s);
  while (!b->get().has_message() && !until.expired()) b->get().progress();
  waiting[1].handle.destroy();
  waiting[2].handle.destroy();
  while (ended < 1 && !until.expired()) static_cast<void>(engine.poll());
  ASSERT_TRUE(a->get().try_send(bytes_of(second)));
  while (ended < 2 && !until.expired()) static_cast<void>(engine.poll());
  EXPECT_EQ(ended, 2);
  waiting[3].handle.destroy();
  waiting[4].handle.destroy();
}

// Coroutines with deadlines that often pass; every message arrives once and in order.
TEST_F(async_messages, random_deadlines_lose_no_message) {
  const auto seed = campaign_seed(77);
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto count = static_cast<std::uint64_t>(campaign_size(500, 20'000));
  for (const std::uint32_t window : {1U, 4U}) {
    connect(tiny(window));
    engine.run([](async_messages& of, std::uint32_t from, std::uint64_t all) -> task<void> {
      std::mt19937 random(from);
      std::uint64_t sent = 0;
      std::uint64_t received = 0;
      const auto limit = [&] {
        return random() % 4 == 0 ? deadline::never()
                                 : deadline::after(std::chrono::microseconds(random() % 60));
      };
      const auto send = [&]() -> task<void> {
        while (sent < all) {
          const auto outcome = co_await of.a->send(bytes_of(sent + 1), limit());
          if (outcome) {
            EXPECT_EQ(outcome.number(), ++sent);
          } else {
            EXPECT_EQ(outcome.code(), ETIMEDOUT);
          }
          if (random() % 16 == 0) static_cast<void>(co_await of.a->drain(limit()));
        }
      };
      const auto receive = [&]() -> task<void> {
        while (received < all) {
          const auto outcome = co_await of.b->receive(deadline::after(1ms * (random() % 2)));
          if (outcome) {
            EXPECT_EQ(number_in(*outcome), ++received);
          } else {
            EXPECT_TRUE(outcome.timed_out());
          }
        }
      };
      async::scope running;
      running.spawn(send());
      running.spawn(receive());
      running.spawn(receive());
      co_await running.join();
      EXPECT_TRUE(co_await of.a->drain());
    }(*this, seed, count));
    ASSERT_FALSE(HasFailure());
  }
}

/// Counts the messages and the stops.
struct counting_receiver {
  using receiver_concept = async::execution::receiver_t;

  std::stop_token token;
  int* messages;
  int* stops;

  [[nodiscard]] token_env<std::stop_token> get_env() const noexcept { return {token}; }
  void set_value(receive_result received) && noexcept {
    EXPECT_TRUE(received);
    ++*messages;
  }
  void set_stopped() && noexcept { ++*stops; }
};

TEST_F(async_messages, sender_that_is_stopped_leaves_channel_and_messages) {
  namespace execution = async::execution;
  std::stop_source stopped;
  int messages = 0;
  int stops = 0;
  const auto receive = [&](std::stop_token token) {
    return execution::connect(b->receive(), counting_receiver{std::move(token), &messages, &stops});
  };
  auto first = receive(stopped.get_token());
  auto second = receive({});
  execution::start(first);
  execution::start(second);
  stopped.request_stop();
  engine.poll();
  EXPECT_EQ(stops, 1);
  const std::uint64_t number = 1;
  const auto sent = engine.run(a->send(bytes_of(number)));
  ASSERT_TRUE(sent);
  EXPECT_EQ(std::get<0>(*sent).value(), 1U);
  const auto until = deadline::after(20s);
  while (messages == 0 && !until.expired()) engine.poll();
  EXPECT_EQ(messages, 1);
  EXPECT_EQ(stops, 1);
  EXPECT_EQ(engine.run(b->drain()), std::tuple(true));
}

}  // namespace
}  // namespace verbena::test
