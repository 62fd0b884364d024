// SPDX-License-Identifier: MIT
// Accepting and connecting on the thread of an engine: many clients, clients that do not complete
// the connection, deadlines, and coroutines and listeners that are destroyed at each step.
#include "verbena/async/message_listener.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/async/owned_coroutine.hpp"
#include "tests/unit/async/token_env.hpp"
#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/channel/channel_pair.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/async/execution.hpp"
#include "verbena/async/scope.hpp"
#include "verbena/async/task.hpp"
#include "verbena/channel/prepared_message_channel.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;
using async::task;

constexpr message_channel_options tiny_messages{.message_bytes = 64,
                                                .queues = {.max_send_wr = 4, .max_recv_wr = 4}};
constexpr std::uint32_t places_of_tiny = 4 + 4 + message_channel::own_operations;

/// The address of a port of this host as text. Not a std::string: g++ 12 destroys a string in an
/// expression with co_await twice.
class host_text {
 public:
  explicit host_text(std::uint16_t port) {
    std::snprintf(text_.data(), text_.size(), "127.0.0.1:%u", unsigned{port});
  }
  // NOLINTNEXTLINE(google-explicit-constructor): an argument
  operator std::string_view() const { return text_.data(); }

 private:
  std::array<char, 32> text_{};
};

deadline listener_deadline() { return deadline::after(60s); }

task<bool> echo_once(async::message_channel channel) {
  const auto message = co_await channel.receive(listener_deadline());
  if (!message) co_return false;
  if (!co_await channel.send(message->bytes(), listener_deadline())) co_return false;
  co_return co_await channel.drain(listener_deadline());
}

task<bool> ask_once(async::message_channel channel, std::uint64_t number) {
  if (!co_await channel.send(std::as_bytes(std::span(&number, 1)), listener_deadline()))
    co_return false;
  const auto answer = co_await channel.receive(listener_deadline());
  co_return answer &&
      answer->length() ==
          sizeof number&& std::memcmp(answer->bytes().data(), &number, sizeof number) == 0;
}

class message_listeners : public ::testing::Test {
 public:
  void SetUp() override {
    if (is_iwarp(context)) GTEST_SKIP() << "iWARP connects by the connection manager";
  }
  [[nodiscard]] async::message_listener open(std::chrono::nanoseconds timeout = 30s,
                                             const bringup::listener_options& streams = {}) {
    return {engine,
            pd,
            peers::listen(streams),
            {.channels = tiny_messages, .negotiation_timeout = timeout}};
  }
  /// Polls until an accept() has a client.
  void poll_until_accepted(const async::message_listener& from) {
    const auto until = listener_deadline();
    while (from.statistics().accepted == 0 && !until.expired()) {
      engine.poll();
      static_cast<void>(engine.arm());  // the next poll looks at the descriptors
    }
  }
  /// Accepts `count` clients and echoes one message of each. Returns the number of successes.
  [[nodiscard]] task<int> serve(async::message_listener& from, int count) {
    int echoed = 0;
    const auto one = [&](async::message_channel client) -> task<void> {
      const bool done = co_await echo_once(std::move(client));
      if (done) ++echoed;
    };
    async::scope clients;
    for (int i = 0; i < count; ++i) {
      auto client = co_await from.accept(listener_deadline());
      if (!client) {
        ADD_FAILURE() << client.error().message();
        break;
      }
      clients.spawn(one(*std::move(client)));
    }
    co_await clients.join();
    co_return echoed;
  }
  [[nodiscard]] task<bool> ask(std::uint16_t port, std::uint64_t number) {
    auto channel = co_await async::connect(engine, pd, host_text(port), listener_deadline(),
                                           {.channel = tiny_messages});
    if (!channel) {
      ADD_FAILURE() << channel.error().message();
      co_return false;
    }
    co_return co_await ask_once(*std::move(channel), number);
  }
  /// Connects `count` clients concurrently. Returns the number of clients that received their
  /// answer.
  [[nodiscard]] task<int> serve_and_ask(async::message_listener& from, int count) {
    int answered = 0;
    const auto one = [&](std::uint64_t number) -> task<void> {
      const bool done = co_await ask(from.port(), number);
      if (done) ++answered;
    };
    async::scope running;
    const auto serving = [&]() -> task<void> {
      const int echoed = co_await serve(from, count);
      EXPECT_EQ(echoed, count);
    };
    running.spawn(serving());
    for (int i = 0; i < count; ++i) running.spawn(one(static_cast<std::uint64_t>(i)));
    co_await running.join();
    co_return answered;
  }

  verbena::context context = open_tested();
  protection_domain pd = context.allocate_pd().value();
  async::engine engine =
      async::engine::create(context, {.operations = 2 * 210 * places_of_tiny}).value();
};

TEST_F(message_listeners, client_is_accepted_and_answered) {
  auto listener = open();
  EXPECT_EQ(engine.run(serve_and_ask(listener, 1)), 1);
  EXPECT_EQ(listener.statistics().accepted, 1U);
  EXPECT_EQ(listener.statistics().failed, 0U);
}

TEST_F(message_listeners, two_hundred_clients_connect_at_once_to_one_thread) {
  auto listener = open();
  EXPECT_EQ(engine.run(serve_and_ask(listener, 200)), 200);
  EXPECT_EQ(listener.statistics().accepted, 200U);
}

TEST_F(message_listeners, listen_opens_an_address) {
  auto listener =
      async::listen(engine, pd, {.host = "127.0.0.1", .port = 0}, {.channels = tiny_messages})
          .value();
  EXPECT_EQ(engine.run(serve_and_ask(listener, 3)), 3);
}

TEST_F(message_listeners, hostile_clients_do_not_delay_others) {
  // The other clients have to connect in this time, also on a slow virtual machine.
  auto listener = open(tested_device() == "soft0" ? 1s : 5s);
  const auto hostile = peers::hostile_clients(listener.port());
  EXPECT_EQ(engine.run(serve_and_ask(listener, 10)), 10);
  const auto wait_for_failures = [&]() -> task<void> {
    const auto until = listener_deadline();
    while (listener.statistics().failed < 2 && !until.expired())
      co_await engine.wait_until(deadline::after(5ms));
  };
  engine.run(wait_for_failures());
  EXPECT_EQ(listener.statistics().failed, 2U) << "the silent one and the malformed one";
}

TEST_F(message_listeners, client_without_room_on_the_engine_receives_the_reason) {
  auto small = async::engine::create(context, {.operations = places_of_tiny}).value();
  async::message_listener listener(small, pd, peers::listen(), {.channels = tiny_messages});
  std::optional<result<async::message_channel>> first;
  std::optional<result<async::message_channel>> second;
  const auto connect = [&](auto& into) -> task<void> {
    into.emplace(co_await async::connect(engine, pd, host_text(listener.port()),
                                         listener_deadline(), {.channel = tiny_messages}));
  };
  async::scope running;
  running.spawn(connect(first));
  running.spawn(connect(second));
  const auto until = listener_deadline();
  while (running.running() != 0 && !until.expired()) {
    small.poll();
    engine.poll();
  }
  ASSERT_TRUE(first && second);
  const auto& refused = *first ? *second : *first;
  EXPECT_NE(first->has_value(), second->has_value());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("has room for"), std::string::npos)
      << refused.error().message();
}

TEST_F(message_listeners, accept_ends_at_its_deadline) {
  auto listener = open();
  const auto accept = [&](deadline until) -> task<error> {
    auto outcome = co_await listener.accept(until);
    co_return std::move(outcome).error();
  };
  EXPECT_EQ(engine.run(accept(deadline::after(0ns))).kind(), error_kind::timed_out);
  EXPECT_EQ(engine.run(accept(deadline::after(20ms))).kind(), error_kind::timed_out);
  EXPECT_EQ(engine.run(serve_and_ask(listener, 2)), 2);
}

TEST_F(message_listeners, close_ends_accept) {
  auto listener = open();
  const auto accept = [&]() -> task<void> {
    const auto outcome = co_await listener.accept();
    EXPECT_EQ(outcome.error().code(), ECANCELED);
  };
  async::scope running;
  running.spawn(accept());
  running.spawn(accept());
  listener.close();
  const auto join = [&]() -> task<void> { co_await running.join(); };
  engine.run(join());
  engine.run(accept());
}

TEST_F(message_listeners, failed_engine_ends_accept_with_the_reason) {
  {
    const auto destroyed_before_the_failure = open();
  }
  auto listener = open();
  int ended = 0;
  const auto accept = [&]() -> task<void> {
    const auto outcome = co_await listener.accept();
    EXPECT_EQ(outcome.error().code(), EIO);
    EXPECT_NE(outcome.error().message().find("create another engine"), std::string::npos)
        << outcome.error().message();
    ++ended;
  };
  async::scope running;
  running.spawn(accept());
  running.spawn(accept());
  ibv_context* const native = context.native();
  const ibv_context_ops before = native->ops;
  native->ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return -EIO; };
  const auto join = [&]() -> task<void> { co_await running.join(); };
  engine.run(join());
  native->ops = before;
  EXPECT_EQ(ended, 2);
  engine.run(accept());
  auto later = open();
  running.spawn([&]() -> task<void> {
    const auto outcome = co_await later.accept();
    EXPECT_EQ(outcome.error().code(), EIO);
  });
  engine.run(join());
}

TEST_F(message_listeners, connect_to_a_port_without_listener_is_refused) {
  const auto port = peers::listen().port();
  const auto connect = [&](std::chrono::nanoseconds retry) -> task<error> {
    auto outcome = co_await async::connect(engine, pd, host_text(port), deadline::after(10s),
                                           {.retry_refused = retry});
    co_return std::move(outcome).error();
  };
  EXPECT_EQ(engine.run(connect(0s)).code(), ECONNREFUSED);
  EXPECT_EQ(engine.run(connect(250ms)).code(), ECONNREFUSED);
}

TEST_F(message_listeners, connect_ends_at_its_deadline_if_the_peer_is_silent) {
  const auto silent = peers::listen();  // never accepts
  const auto connect = [&]() -> task<error> {
    auto outcome = co_await async::connect(engine, pd, host_text(silent.port()),
                                           deadline::after(30ms), {.channel = tiny_messages});
    co_return std::move(outcome).error();
  };
  EXPECT_EQ(engine.run(connect()).kind(), error_kind::timed_out);
}

owned_coroutine connect_alone(message_listeners& test, std::uint16_t port) {
  static_cast<void>(co_await async::connect(test.engine, test.pd, host_text(port),
                                            listener_deadline(), {.channel = tiny_messages}));
}
owned_coroutine accept_alone(async::message_listener& from) {
  static_cast<void>(co_await from.accept());
}

// Each side is destroyed after 0, 1, 2, … polls; the engine remains usable.
TEST_F(message_listeners, sides_can_be_destroyed_at_each_step) {
  for (int steps = 0; steps < 40; ++steps) {
    for (const bool listener_first : {false, true}) {
      std::optional listener(open());
      auto accepting = accept_alone(*listener);
      auto connecting = connect_alone(*this, listener->port());
      for (int i = 0; i < steps; ++i) {
        engine.poll();
        static_cast<void>(engine.arm());  // the next poll looks at the descriptors
      }
      if (listener_first) listener.reset();
      connecting.handle.destroy();
      if (!listener_first) accepting.handle.destroy();
      engine.poll();
      if (listener_first) {
        EXPECT_TRUE(accepting.handle.done());
        accepting.handle.destroy();
      }
    }
  }
  auto listener = open();
  EXPECT_EQ(engine.run(serve_and_ask(listener, 2)), 2);
}

/// Counts the clients and the stops.
struct receiver_of_client {
  using receiver_concept = async::execution::receiver_t;

  std::stop_token token;
  int* clients;
  int* stops;

  [[nodiscard]] token_env<std::stop_token> get_env() const noexcept { return {token}; }
  void set_value(const result<async::message_channel>& client) && noexcept {
    EXPECT_TRUE(client);
    ++*clients;
  }
  void set_stopped() && noexcept { ++*stops; }
};

TEST_F(message_listeners, client_of_an_accept_that_is_destroyed_is_left_to_the_next_one) {
  auto listener = open();
  const auto accepting = accept_alone(listener);
  const auto connecting = connect_alone(*this, listener.port());
  poll_until_accepted(listener);
  ASSERT_FALSE(accepting.handle.done()) << "continues in the next poll";
  accepting.handle.destroy();
  EXPECT_EQ(listener.statistics().accepted, 0U);
  const auto client = engine.run(listener.accept(deadline::after(20s)));
  ASSERT_TRUE(client);
  EXPECT_TRUE(std::get<0>(*client));
  connecting.handle.destroy();
}

TEST_F(message_listeners, client_of_an_accept_that_is_stopped_is_left_to_the_next_one) {
  auto listener = open();
  std::stop_source stopped;
  int clients = 0;
  int stops = 0;
  const auto accept = [&](std::stop_token token) {
    return async::execution::connect(listener.accept(),
                                     receiver_of_client{std::move(token), &clients, &stops});
  };
  auto first = accept(stopped.get_token());
  auto second = accept({});
  async::execution::start(first);
  async::execution::start(second);
  const auto connecting = connect_alone(*this, listener.port());
  poll_until_accepted(listener);
  stopped.request_stop();
  const auto until = listener_deadline();
  while (clients + stops < 2 && !until.expired()) engine.poll();
  EXPECT_EQ(clients, 1);
  EXPECT_EQ(stops, 1);
  EXPECT_EQ(listener.statistics().accepted, 1U);
  connecting.handle.destroy();
}

// The listener cannot take the client back.
TEST_F(message_listeners, accept_with_a_client_outlives_its_listener) {
  std::optional listener(open());
  std::stop_source stopped;
  int clients = 0;
  int stops = 0;
  auto accepting = async::execution::connect(
      listener->accept(), receiver_of_client{stopped.get_token(), &clients, &stops});
  async::execution::start(accepting);
  const auto connecting = connect_alone(*this, listener->port());
  poll_until_accepted(*listener);
  listener.reset();
  stopped.request_stop();
  const auto until = listener_deadline();
  while (clients + stops == 0 && !until.expired()) engine.poll();
  EXPECT_EQ(clients, 1);
  connecting.handle.destroy();
}

// The second client waits in the backlog until accept() returns the first client, which is
// connected.
TEST_F(message_listeners, full_listener_accepts_again_after_accept_returns_a_connected_client) {
  async::message_listener listener(engine, pd, peers::listen(),
                                   {.channels = tiny_messages, .max_pending = 1});
  const auto connect = [&]() -> task<void> {
    const auto made = co_await async::connect(engine, pd, host_text(listener.port()),
                                              listener_deadline(), {.channel = tiny_messages});
    EXPECT_TRUE(made);
  };
  const auto accept = [&]() -> task<bool> {
    const auto made = co_await listener.accept(deadline::after(20s));
    co_return made.has_value();
  };
  for (int i = 0; i < 2; ++i) {
    async::scope running;
    running.spawn(connect());
    const auto until = listener_deadline();
    while (running.running() != 0 && !until.expired()) engine.poll();
    EXPECT_EQ(running.running(), 0U) << "the listener does not accept";
    const bool is_accepted = engine.run(accept());
    EXPECT_TRUE(is_accepted);
  }
}

TEST_F(message_listeners, listener_accepts_again_after_accept_returns_a_failure) {
  auto listener = open();
  const auto waiting = peers::raw_connection(listener.port());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  // The number of the next descriptor. poll(2) fails with EINVAL if the limit is lower than needed.
  none.rlim_cur = static_cast<rlim_t>(unique_fd(::dup(waiting.get())).get());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  for (int i = 0; i < 200; ++i) engine.poll();  // accept4() fails, and no accept() is pending
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  const auto accept = [&]() -> task<void> {
    const auto failed = co_await listener.accept(listener_deadline());
    EXPECT_FALSE(failed);
    if (!failed) {
      EXPECT_EQ(failed.error().code(), EMFILE) << failed.error().message();
    }
  };
  engine.run(accept());
  EXPECT_EQ(engine.run(serve_and_ask(listener, 1)), 1);
}

TEST_F(message_listeners, refused_clients_do_not_keep_the_engine_from_other_work) {
  constexpr std::uint64_t clients = 200;
  auto full = async::engine::create(context, {.operations = 1}).value();
  async::message_listener listener(full, pd, peers::listen({.backlog = 256}),
                                   {.channels = tiny_messages});
  std::vector<unique_fd> sockets;
  for (std::uint64_t i = 0; i < clients; ++i) {
    sockets.push_back(peers::raw_connection(listener.port()));
    peers::send_bytes(sockets.back(), bringup::encode_greeting(bringup::supported_versions));
  }
  const auto until = listener_deadline();
  std::uint64_t most = 0;
  for (std::uint64_t before = 0; before < clients && !until.expired();) {
    full.poll();
    static_cast<void>(full.arm());  // the next poll looks at the descriptors
    const std::uint64_t now = listener.statistics().failed;
    most = std::max(most, now - before);
    before = now;
  }
  EXPECT_EQ(listener.statistics().failed, clients);
  EXPECT_LE(most, 130U) << "clients that were refused in one poll";
}

// The engine belongs to the context of the connection manager.
TEST(managed_message_listeners, clients_connect_by_the_connection_manager) {
  const tested_manager manager;
  auto from = manager.open();
  const auto port = from.port();
  const auto context = from.id().context().value();
  const auto pd = context.allocate_pd().value();
  constexpr int count = 8;
  auto engine = async::engine::create(context, {.operations = 2 * count * places_of_tiny}).value();
  async::message_listener listener(engine, pd, std::move(from), {.channels = tiny_messages});
  int answered = 0;
  int echoed = 0;
  const auto ask = [&](std::uint64_t number) -> task<void> {
    auto peer = co_await engine.complete(manager.resolve_in_steps(port, listener_deadline()));
    auto prepared = message_channel::prepare(pd, engine.hub(), tiny_messages).value();
    auto made = co_await engine.complete(
        std::move(prepared).connect_in_steps(peer.value(), listener_deadline()));
    async::message_channel channel(engine, std::move(made).value());
    const bool done = co_await ask_once(std::move(channel), number);
    if (done) ++answered;
  };
  const auto echo = [&](async::message_channel channel) -> task<void> {
    const bool done = co_await echo_once(std::move(channel));
    if (done) ++echoed;
  };
  const auto all = [&]() -> task<void> {
    async::scope running;
    for (int i = 0; i < count; ++i) running.spawn(ask(static_cast<std::uint64_t>(i)));
    for (int i = 0; i < count; ++i) {
      auto client = co_await listener.accept(listener_deadline());
      running.spawn(echo(std::move(client).value()));
    }
    co_await running.join();
  };
  engine.run(all());
  EXPECT_EQ(answered, count);
  EXPECT_EQ(echoed, count);
}

/// Receives once; returns true if the channel has ended.
task<bool> ends_without_message(async::message_channel channel) {
  auto received = co_await channel.receive(listener_deadline());
  co_return !received.has_value() && channel.get().failure() != nullptr;
}

TEST(managed_message_listeners, receive_ends_if_the_peer_disconnects) {
  const tested_manager manager;
  auto from = manager.open();
  const auto port = from.port();
  const auto context = from.id().context().value();
  const auto pd = context.allocate_pd().value();
  auto engine = async::engine::create(context, {.operations = 2 * places_of_tiny}).value();
  async::message_listener listener(engine, pd, std::move(from), {.channels = tiny_messages});
  bool has_ended = false;
  const auto connect_and_leave = [&]() -> task<void> {
    auto peer = co_await engine.complete(manager.resolve_in_steps(port, listener_deadline()));
    auto prepared = message_channel::prepare(pd, engine.hub(), tiny_messages).value();
    auto made = co_await engine.complete(
        std::move(prepared).connect_in_steps(peer.value(), listener_deadline()));
    EXPECT_TRUE(made.has_value());
  };
  const auto serve = [&]() -> task<void> {
    auto client = co_await listener.accept(listener_deadline());
    const bool ended = co_await ends_without_message(std::move(client).value());
    has_ended = ended;
  };
  const auto all = [&]() -> task<void> {
    async::scope running;
    running.spawn(connect_and_leave());
    running.spawn(serve());
    co_await running.join();
  };
  engine.run(all());
  EXPECT_TRUE(has_ended);
}

}  // namespace
}  // namespace verbena::test
