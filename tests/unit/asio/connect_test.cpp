// SPDX-License-Identifier: MIT
// Accepting and connecting in an io_context: tokens, cancellation, executors, allocators, clients
// that do not connect, and contexts that are destroyed at each step.
#include <asio/bind_allocator.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/experimental/deferred.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/asio/asio_pair.hpp"
#include "tests/unit/asio/counting_allocator.hpp"
#include "tests/unit/bringup/peers.hpp"
#include "verbena/asio/message_listener.hpp"
#include "verbena/channel/prepared_channel.hpp"
#include "verbena/channel/prepared_message_channel.hpp"

namespace verbena::test {
namespace {

using net::awaitable;
using net::cancellation_type;
using net::use_awaitable;
using net::experimental::as_tuple;
using net::experimental::deferred;
using accepted = result<asio::message_channel>;

constexpr std::array all_cancellations{cancellation_type::terminal, cancellation_type::partial,
                                       cancellation_type::total};

deadline connect_deadline() { return deadline::after(60s); }

std::ptrdiff_t descriptors_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

bringup::address at_port(std::uint16_t port) { return {.host = "127.0.0.1", .port = port}; }

/// An engine in an io_context.
class asio_steps : public ::testing::Test {
 public:
  void run() {
    io->restart();
    io->run_for(60s);
    EXPECT_TRUE(io->stopped()) << "work is left after 60 s";
  }
  /// Runs a coroutine until the io_context has no work; an exception fails the test.
  template <class Coroutine>
  void spawn(Coroutine&& body) {
    std::exception_ptr failure;
    net::co_spawn(*io, std::forward<Coroutine>(body),
                  [&](std::exception_ptr thrown) { failure = std::move(thrown); });
    run();
    if (failure) std::rethrow_exception(failure);
  }
  /// Runs handlers until the condition holds.
  template <class Condition>
  void run_until(Condition holds) {
    const auto until = connect_deadline();
    io->restart();
    while (!holds() && !until.expired()) io->run_one_for(10ms);
    EXPECT_TRUE(holds());
  }

  verbena::context context = open_tested();
  protection_domain pd = context.allocate_pd().value();
  std::optional<net::io_context> io{std::in_place};
  asio::engine engine = asio::engine::create(context, *io).value();
};

/// An engine in an io_context, and connections over TCP.
class asio_connections : public asio_steps {
 public:
  void SetUp() override {
    if (is_iwarp(context)) GTEST_SKIP() << "iWARP connects by the connection manager";
  }
  [[nodiscard]] asio::message_listener open(std::chrono::nanoseconds timeout = 30s) {
    return {engine, pd, peers::listen(), {.channels = tiny(4), .negotiation_timeout = timeout}};
  }
  template <class Token>
  auto connect(const asio::message_listener& to, Token&& token) {
    return asio::async_connect(engine, pd, at_port(to.port()), connect_deadline(), options,
                               std::forward<Token>(token));
  }
  /// Connects a client, and returns both sides.
  [[nodiscard]] std::pair<accepted, accepted> connect_both(asio::message_listener& listener) {
    std::optional<accepted> served;
    std::optional<accepted> asked;
    listener.async_accept(connect_deadline(), [&](std::error_code code, accepted channel) {
      EXPECT_FALSE(code) << code.message();
      served = std::move(channel);
    });
    connect(listener, [&](std::error_code code, accepted channel) {
      EXPECT_FALSE(code) << code.message();
      asked = std::move(channel);
    });
    EXPECT_FALSE(served || asked) << "not called by the functions that begin operations";
    run();
    return {*std::move(served), *std::move(asked)};
  }
  /// Sends one message from each side to the other.
  void check(asio::message_channel& one, asio::message_channel& other) {
    int received = 0;
    for (auto* each : {&one, &other}) {
      each->async_send(asio_pair::some_bytes, net::detached);
      each->async_receive([&](std::error_code code, const receive_result& message) {
        EXPECT_FALSE(code) << code.message();
        received += message && message->length() == sizeof asio_pair::some_bytes ? 1 : 0;
      });
    }
    run();
    EXPECT_EQ(received, 2);
  }

  const async::connect_options options{.channel = tiny(4)};
};

TEST_F(asio_connections, callback_is_called_with_a_connected_channel) {
  auto listener = open();
  auto [served, asked] = connect_both(listener);
  check(served.value(), asked.value());
  EXPECT_EQ(listener.statistics().accepted, 1U);
  EXPECT_EQ(served->get_executor(), engine.get_executor());
}

TEST_F(asio_connections, listener_is_replaced_by_one_of_another_engine) {
  auto listener = [&] {
    auto first = asio::engine::create(context, *io).value();
    return asio::message_listener(first, pd, peers::listen(), {.channels = tiny(4)});
  }();
  listener = open();
  auto [served, asked] = connect_both(listener);
  EXPECT_TRUE(served && asked);
}

TEST_F(asio_connections, use_awaitable_returns_a_connected_channel) {
  auto listener = open();
  net::co_spawn(
      *io,
      [&]() -> awaitable<void> {
        auto client = co_await listener.async_accept(use_awaitable);
        const auto message = co_await client->async_receive(use_awaitable);
        (co_await client->async_send(message->bytes(), use_awaitable)).value();
        co_await client->async_drain(use_awaitable);
      },
      net::detached);
  bool is_answered = false;
  spawn([&]() -> awaitable<void> {
    auto channel = co_await connect(listener, use_awaitable);
    (co_await channel->async_send(asio_pair::some_bytes, use_awaitable)).value();
    const auto answer = co_await channel->async_receive(use_awaitable);
    is_answered = answer->length() == sizeof asio_pair::some_bytes;
  });
  EXPECT_TRUE(is_answered);
}

TEST_F(asio_connections, use_future_returns_a_connected_channel) {
  auto listener = open();
  auto served = listener.async_accept(net::use_future);
  auto asked = connect(listener, net::use_future);
  run();
  auto one = served.get();
  auto other = asked.get();
  check(one.value(), other.value());
}

TEST_F(asio_connections, deferred_operations_begin_when_they_are_invoked) {
  auto listener = open();
  auto accepting = listener.async_accept(deferred);
  auto connecting = connect(listener, deferred);
  run();
  std::optional<accepted> served;
  std::optional<accepted> asked;
  std::move(accepting)([&](std::error_code, accepted channel) { served = std::move(channel); });
  io->restart();
  io->run_for(50ms);
  EXPECT_FALSE(served) << "the client has not begun";
  std::move(connecting)([&](std::error_code, accepted channel) { asked = std::move(channel); });
  run();
  check(served.value().value(), asked.value().value());
}

TEST_F(asio_connections, text_names_the_server) {
  auto listener = open();
  const auto text = "127.0.0.1:" + std::to_string(listener.port());
  listener.async_accept(net::detached);
  std::error_code code = net::error::already_started;
  asio::async_connect(engine, pd, text, connect_deadline(), options,
                      [&](std::error_code ended, const accepted&) { code = ended; });
  run();
  EXPECT_FALSE(code) << code.message();
  asio::async_connect(engine, pd, "server:port", connect_deadline(),
                      [&](std::error_code ended, const accepted& none) {
                        code = ended;
                        EXPECT_EQ(none.error().kind(), error_kind::invalid_argument);
                      });
  run();
  EXPECT_EQ(code, net::error::invalid_argument);
}

TEST_F(asio_connections, codes_are_those_of_asio) {
  const auto closed = peers::listen().port();
  spawn([&]() -> awaitable<void> {
    constexpr auto token = as_tuple(use_awaitable);
    const auto address = at_port(closed);
    auto [refused, none] =
        co_await asio::async_connect(engine, pd, address, connect_deadline(), token);
    EXPECT_EQ(refused, net::error::connection_refused);
    EXPECT_EQ(none.error().code(), ECONNREFUSED);
    auto listener = open();
    auto [late, nobody] = co_await listener.async_accept(deadline::after(10ms), token);
    EXPECT_EQ(late, net::error::timed_out);
    EXPECT_EQ(nobody.error().kind(), error_kind::timed_out);
    const auto silent = peers::listen();
    const auto to_silent = at_port(silent.port());
    auto [given_up, nothing] =
        co_await asio::async_connect(engine, pd, to_silent, deadline::after(30ms), token);
    EXPECT_EQ(given_up, net::error::timed_out);
  });
}

TEST_F(asio_connections, cancelled_connection_attempt_leaves_nothing) {
  const auto silent = peers::listen();
  std::array<net::cancellation_signal, all_cancellations.size()> signals;
  for (int round = 0; round < 2; ++round) {
    const auto before = descriptors_of_process();
    for (std::size_t i = 0; i < signals.size(); ++i) {
      std::optional<std::error_code> code;
      asio::async_connect(
          engine, pd, at_port(silent.port()), connect_deadline(), options,
          net::bind_cancellation_slot(
              signals.at(i).slot(), [&](std::error_code ended, const accepted&) { code = ended; }));
      io->restart();
      io->run_for(5ms);
      EXPECT_GT(descriptors_of_process(), before);
      signals.at(i).emit(all_cancellations.at(i));
      EXPECT_FALSE(code) << "not called by emit()";
      run();
      EXPECT_EQ(code, net::error::operation_aborted);
      EXPECT_EQ(descriptors_of_process(), before);
    }
  }
}

TEST_F(asio_connections, connection_attempt_can_be_cancelled_at_each_step) {
  auto listener = open();
  for (int handlers = 0; handlers < 30; ++handlers) {
    net::cancellation_signal signal;
    std::optional<std::error_code> code;
    std::optional<accepted> served;
    net::cancellation_signal accepting;
    listener.async_accept(net::bind_cancellation_slot(
        accepting.slot(), [&](std::error_code, accepted channel) { served = std::move(channel); }));
    connect(listener,
            net::bind_cancellation_slot(
                signal.slot(), [&](std::error_code ended, const accepted&) { code = ended; }));
    io->restart();
    for (int i = 0; i < handlers; ++i) io->poll_one();
    signal.emit(cancellation_type::total);
    run_until([&] { return code.has_value(); });
    accepting.emit(cancellation_type::total);
    run();
    EXPECT_TRUE(served);
  }
  auto [served, asked] = connect_both(listener);
  check(served.value(), asked.value());
}

TEST_F(asio_connections, cancelled_accept_leaves_the_client_to_the_next_one) {
  auto listener = open();
  std::optional<std::error_code> code;
  for (const auto type : all_cancellations) {
    net::cancellation_signal signal;
    listener.async_accept(net::bind_cancellation_slot(
        signal.slot(), [&](std::error_code ended, const accepted&) { code = ended; }));
    io->restart();
    io->poll();
    signal.emit(type);
    run();
    EXPECT_EQ(std::exchange(code, std::nullopt), net::error::operation_aborted);
  }
  auto [served, asked] = connect_both(listener);
  check(served.value(), asked.value());
}

// The client is usually connected when the first accept begins, so that the operation has the
// client when it is cancelled.
TEST_F(asio_connections, accept_that_has_its_client_leaves_it_to_the_next_one_when_cancelled) {
  auto listener = open();
  std::optional<accepted> asked;
  connect(listener, [&](std::error_code, accepted channel) { asked = std::move(channel); });
  run();
  ASSERT_TRUE(asked && *asked);
  // Keeps the engine polling until the other side has connected.
  asked->value().async_receive(deadline::after(100ms), net::detached);
  run();
  for (const auto type : all_cancellations) {
    std::optional<std::error_code> code;
    net::cancellation_signal signal;
    listener.async_accept(net::bind_cancellation_slot(
        signal.slot(), [&](std::error_code ended, const accepted&) { code = ended; }));
    signal.emit(type);
    run();
    EXPECT_EQ(code, net::error::operation_aborted);
  }
  std::optional<accepted> served;
  listener.async_accept(connect_deadline(),
                        [&](std::error_code, accepted channel) { served = std::move(channel); });
  run();
  ASSERT_TRUE(served && *served);
  check(served->value(), asked->value());
}

TEST_F(asio_connections, handlers_are_called_on_their_executor) {
  auto listener = open();
  auto strand = net::make_strand(*io);
  int called = 0;
  const auto handler = [&] {
    return net::bind_executor(strand, [&](std::error_code code, const accepted&) {
      EXPECT_FALSE(code);
      EXPECT_TRUE(strand.running_in_this_thread());
      ++called;
    });
  };
  listener.async_accept(handler());
  connect(listener, handler());
  run();
  EXPECT_EQ(called, 2);
}

TEST_F(asio_connections, operation_is_one_block_of_the_allocator_of_its_handler) {
  auto listener = open();
  counting_allocator<void>::counters count;
  int called = 0;
  const auto handler = [&](int live) {
    return net::bind_allocator(counting_allocator<void>(count),
                               [&, live](std::error_code code, const accepted&) {
                                 EXPECT_FALSE(code);
                                 EXPECT_LE(count.live, live);
                                 ++called;
                               });
  };
  listener.async_accept(handler(1));
  EXPECT_EQ(count.live, 1);
  connect(listener, handler(1));
  EXPECT_EQ(count.live, 2);
  run();
  EXPECT_EQ(called, 2);
  EXPECT_EQ(count.made, 2);
  EXPECT_EQ(count.live, 0);
}

TEST_F(asio_connections, hostile_clients_do_not_delay_others) {
  auto listener = open();
  const auto hostile = peers::hostile_clients(listener.port());
  int connected = 0;
  std::vector<asio::message_channel> channels;
  for (int i = 0; i < 10; ++i) {
    for (const bool is_server : {true, false}) {
      auto keep = [&](std::error_code code, accepted channel) {
        EXPECT_FALSE(code) << code.message();
        if (channel) channels.push_back(*std::move(channel));
        ++connected;
      };
      if (is_server)
        listener.async_accept(deadline::after(20s), keep);
      else
        connect(listener, keep);
    }
  }
  run();  // less than the negotiation timeout, after which the silent ones are closed
  EXPECT_EQ(connected, 20);
  EXPECT_EQ(listener.statistics().accepted, 10U);
}

TEST_F(asio_connections, closed_or_destroyed_listener_ends_its_operations) {
  std::optional listener(open());
  int ended = 0;
  const auto count = [&](std::error_code code, const accepted& none) {
    EXPECT_EQ(code, net::error::operation_aborted);
    EXPECT_FALSE(none);
    ++ended;
  };
  listener->async_accept(count);
  listener->async_accept(count);
  // The context sleeps.
  net::steady_timer later(*io, 5ms);
  later.async_wait([&](std::error_code) { listener->close(); });
  run();
  EXPECT_EQ(ended, 2);
  listener->async_accept(count);
  run();
  EXPECT_EQ(ended, 3);
  listener.emplace(open());
  listener->async_accept(count);
  net::steady_timer last(*io, 5ms);
  last.async_wait([&](std::error_code) { listener.reset(); });
  run();
  EXPECT_EQ(ended, 4);
}

TEST_F(asio_connections, operators_of_awaitables_limit_an_accept) {
  using namespace net::experimental::awaitable_operators;
  auto listener = open();
  spawn([&]() -> awaitable<void> {
    net::steady_timer limit(*io, 2ms);
    const auto outcome =
        co_await (listener.async_accept(use_awaitable) || limit.async_wait(use_awaitable));
    EXPECT_EQ(outcome.index(), 1U);
  });
}

/// A handler of which all copies are counted, and which must not be called.
struct never_called {
  std::shared_ptr<int> counted;
  void operator()(std::error_code /*code*/, const accepted& /*channel*/) const {
    ADD_FAILURE() << "a handler was called";
  }
};

TEST_F(asio_connections, destroyed_context_leaks_nothing_at_each_step) {
  const auto counted = std::make_shared<int>();
  const auto silent = peers::listen();
  // The device keeps the memory of a message channel; how many handlers prepare one depends on
  // time.
  EXPECT_TRUE(message_channel::prepare(pd, engine.hub(), tiny(4)));
  std::ptrdiff_t before = 0;
  for (int handlers = 0; handlers < 30; ++handlers) {
    io.emplace();
    {
      auto brief = asio::engine::create(context, *io).value();
      asio::message_listener listener(brief, pd, peers::listen(), {.channels = tiny(4)});
      for (int i = 0; i < 2; ++i) listener.async_accept(never_called{counted});
      // Its client does not connect before the context is destroyed, whatever the handlers do.
      asio::async_connect(brief, pd, at_port(silent.port()), connect_deadline(), options,
                          never_called{counted});
      const auto half = peers::raw_connection(listener.port());
      peers::send_bytes(half, bringup::encode_greeting(bringup::supported_versions));
      for (int i = 0; i < handlers; ++i) io->poll_one();
      io.reset();
      EXPECT_EQ(counted.use_count(), 1);
    }
    if (handlers == 10) before = descriptors_of_process();
  }
  EXPECT_EQ(descriptors_of_process(), before);
}

TEST_F(asio_connections, destroyed_context_gives_up_names_that_are_being_resolved) {
  const auto counted = std::make_shared<int>();
  for (int i = 0; i < 20; ++i)
    asio::async_connect(engine, pd, "localhost:1", connect_deadline(), never_called{counted});
  io.reset();
  EXPECT_EQ(counted.use_count(), 1);
}

// A channel that is not a message channel, in steps of its own.
TEST_F(asio_connections, channel_connects_in_steps) {
  auto listener = peers::listen();
  const channel_options queues{.queues = {.max_send_wr = 4, .max_recv_wr = 4}};
  const auto connected = [&](steps<bringup::stream> to) -> awaitable<asio::channel> {
    auto peer = co_await engine.async_complete(std::move(to), use_awaitable);
    auto prepared = pd.create_channel(engine.hub(), queues).value();
    auto made = co_await engine.async_complete(
        std::move(prepared).connect_in_steps(peer.value(), connect_deadline()), use_awaitable);
    co_return asio::channel(engine, std::move(made).value());
  };
  const auto memory = pd.allocate(64, access::local_write).value();
  bool is_sent = false;
  spawn([&]() -> awaitable<void> {
    using namespace net::experimental::awaitable_operators;
    auto [server, client] = co_await (
        connected(listener.accept_in_steps(connect_deadline())) &&
        connected(bringup::stream::connect_in_steps(listener.local_address(), connect_deadline())));
    server.async_receive(sink(memory, 32, 32), net::detached);
    is_sent = bool(co_await client.async_send(source(memory, 0, 8), use_awaitable));
  });
  EXPECT_TRUE(is_sent);
}

steps<int> steps_that_throw() {
  static_cast<void>(co_await detail::expiry(deadline::after(2ms)));
  throw std::runtime_error("a step threw");
  co_return 0;
}

TEST_F(asio_steps, exception_in_a_step_leaves_run_and_destroys_the_handler) {
  const auto alive = std::make_shared<int>();
  engine.async_complete(steps_that_throw(), [alive](std::error_code, const result<int>&) {
    ADD_FAILURE() << "a handler was called";
  });
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_EQ(alive.use_count(), 1);
  run();
}

steps<bool> steps_with_a_truth_value() {
  static_cast<void>(co_await detail::expiry(deadline::after(2ms)));
  co_return false;
}

TEST_F(asio_steps, result_of_bool_is_a_success_whatever_its_value) {
  std::optional<std::pair<std::error_code, bool>> ended;
  engine.async_complete(
      steps_with_a_truth_value(),
      [&](std::error_code code, const result<bool>& how) { ended.emplace(code, how.value()); });
  run();
  EXPECT_EQ(ended, std::pair(std::error_code(), false));
}

TEST(asio_managed_connections, channels_connect_by_the_connection_manager) {
  const tested_manager manager;
  auto from = manager.open();
  const auto port = from.port();
  const auto context = from.id().context().value();
  const auto pd = context.allocate_pd().value();
  net::io_context io;
  auto engine = asio::engine::create(context, io).value();
  asio::message_listener listener(engine, pd, std::move(from), {.channels = tiny(4)});
  net::co_spawn(
      io,
      [&]() -> awaitable<void> {
        auto client = (co_await listener.async_accept(connect_deadline(), use_awaitable)).value();
        const auto message = co_await client.async_receive(connect_deadline(), use_awaitable);
        (co_await client.async_send(message->bytes(), use_awaitable)).value();
        co_await client.async_drain(connect_deadline(), use_awaitable);
      },
      net::detached);
  bool is_answered = false;
  net::co_spawn(
      io,
      [&]() -> awaitable<void> {
        auto peer = co_await engine.async_complete(
            manager.resolve_in_steps(port, connect_deadline()), use_awaitable);
        auto prepared = message_channel::prepare(pd, engine.hub(), tiny(4)).value();
        auto made = co_await engine.async_complete(
            std::move(prepared).connect_in_steps(peer.value(), connect_deadline()), use_awaitable);
        asio::message_channel channel(engine, std::move(made).value());
        (co_await channel.async_send(asio_pair::some_bytes, use_awaitable)).value();
        const auto answer = co_await channel.async_receive(connect_deadline(), use_awaitable);
        is_answered = answer->length() == sizeof asio_pair::some_bytes;
      },
      net::detached);
  io.run_for(120s);
  EXPECT_TRUE(is_answered);
  EXPECT_TRUE(io.stopped());
}

// Each attempt is given up in another step. Later connections succeed.
TEST(asio_managed_connections, cancelled_attempt_leaves_nothing) {
  const tested_manager manager;
  auto from = manager.open();
  const auto port = from.port();
  const auto context = from.id().context().value();
  const auto pd = context.allocate_pd().value();
  net::io_context io;
  auto engine = asio::engine::create(context, io).value();
  std::ptrdiff_t before = 0;
  for (int round = 0; round < 12; ++round) {
    std::optional<std::error_code> code;
    net::cancellation_signal signal;
    {
      std::optional<cm::connector> peer;
      engine.async_complete(manager.resolve_in_steps(port, connect_deadline()),
                            [&](std::error_code, result<cm::connector> made) {
                              peer.emplace(std::move(made).value());
                            });
      io.restart();
      io.run_for(60s);
      ASSERT_TRUE(peer);
      auto prepared = message_channel::prepare(pd, engine.hub(), tiny(4)).value();
      engine.async_complete(
          std::move(prepared).connect_in_steps(*peer, connect_deadline()),
          net::bind_cancellation_slot(
              signal.slot(),
              [&](std::error_code ended, const result<message_channel>&) { code = ended; }));
      io.restart();
      for (int i = 0; i < round; ++i) io.poll_one();
      signal.emit(cancellation_type::total);
      io.restart();
      io.run_for(60s);
      EXPECT_EQ(code, net::error::operation_aborted) << "nobody accepts";
    }
    if (round == 2) before = descriptors_of_process();
  }
  // The connection manager closes descriptors on its own thread.
  const auto until = connect_deadline();
  while (descriptors_of_process() > before && !until.expired()) std::this_thread::yield();
  EXPECT_LE(descriptors_of_process(), before);
}

}  // namespace
}  // namespace verbena::test
