// SPDX-License-Identifier: MIT
// Completion tokens of Asio, each with an operation of a channel and of a message channel.
#include <asio/any_io_executor.hpp>
#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/experimental/deferred.hpp>
#include <asio/experimental/parallel_group.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/system_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <future>
#include <thread>
#include <tuple>
#include <variant>

#include "tests/unit/asio/asio_pair.hpp"

namespace verbena::test {
namespace {

using net::awaitable;
using net::use_awaitable;
using net::experimental::as_tuple;
using net::experimental::deferred;
using net::experimental::make_parallel_group;
using net::experimental::wait_for_one;

class asio_tokens : public asio_pair {
 public:
  /// Runs a coroutine until the io_context has no work; an exception fails the test.
  template <class Coroutine>
  void spawn(Coroutine&& body) {
    std::exception_ptr failure;
    bool has_ended = false;
    net::co_spawn(*io, std::forward<Coroutine>(body), [&](std::exception_ptr thrown) {
      failure = std::move(thrown);
      has_ended = true;
    });
    run();
    EXPECT_TRUE(has_ended);
    if (failure) std::rethrow_exception(failure);
  }
};

TEST_F(asio_tokens, callback_is_called_with_code_and_result) {
  int called = 0;
  a->async_write(from(), remote(), [&](std::error_code code, operation_result done) {
    EXPECT_FALSE(code);
    EXPECT_TRUE(done);
    ++called;
  });
  server->async_receive([&](std::error_code code, receive_result received) {
    EXPECT_FALSE(code);
    EXPECT_EQ(number_in(received), 7U);
    ++called;
  });
  const std::uint64_t number = 7;
  client->async_send(bytes_of(number), [&](std::error_code code, send_result sent) {
    EXPECT_FALSE(code);
    EXPECT_EQ(sent.value(), 1U);
    ++called;
  });
  client->async_drain([&](std::error_code code) {
    EXPECT_FALSE(code);
    ++called;
  });
  EXPECT_EQ(called, 0) << "not called by the functions that begin operations";
  run();
  EXPECT_EQ(called, 4);
}

TEST_F(asio_tokens, use_awaitable_returns_the_result) {
  spawn([this]() -> awaitable<void> {
    const operation_result written = co_await a->async_write(from(), remote(), use_awaitable);
    EXPECT_TRUE(written);
    for (std::uint64_t i = 0; i < 20; ++i) {
      const send_result sent = co_await client->async_send(bytes_of(i), use_awaitable);
      EXPECT_EQ(sent.value(), i + 1);
      EXPECT_EQ(number_in(co_await server->async_receive(use_awaitable)), i);
    }
    co_await client->async_drain(use_awaitable);
  });
}

TEST_F(asio_tokens, use_awaitable_throws_the_code_of_a_failure) {
  spawn([this]() -> awaitable<void> {
    std::error_code caught;
    try {
      static_cast<void>(co_await server->async_receive(deadline::after(1ms), use_awaitable));
    } catch (const net::system_error& thrown) {
      caught = thrown.code();
    }
    EXPECT_EQ(caught, net::error::timed_out);
  });
}

TEST_F(asio_tokens, use_future_returns_the_result) {
  const auto work = net::make_work_guard(*io);
  std::thread loop([this] { io->run(); });
  // On the thread of the engine.
  auto begun = std::promise<std::future<operation_result>>();
  net::post(*io, [&] { begun.set_value(a->async_write(from(), remote(), net::use_future)); });
  EXPECT_TRUE(begun.get_future().get().get());
  auto late = std::promise<std::future<receive_result>>();
  net::post(*io,
            [&] { late.set_value(server->async_receive(deadline::after(1ms), net::use_future)); });
  auto received = late.get_future().get();
  EXPECT_THROW(static_cast<void>(received.get()), net::system_error);
  io->stop();
  loop.join();
}

TEST_F(asio_tokens, deferred_operation_begins_when_it_is_invoked) {
  bool is_written = false;
  auto operation = a->async_write(from(), remote(), deferred);
  run();
  EXPECT_EQ(a->get().in_flight(), 0U);
  std::move(operation)([&](std::error_code code, operation_result) { is_written = !code; });
  EXPECT_EQ(a->get().in_flight(), 1U);
  run();
  EXPECT_TRUE(is_written);
  auto outbox = client->get().take_buffer().value();
  auto sending = client->async_send(std::move(outbox), {.length = 8}, deferred);
  EXPECT_EQ(client->get().sent(), 0U);
  std::move(sending)(net::detached);
  EXPECT_EQ(client->get().sent(), 1U);
  run();
}

TEST_F(asio_tokens, detached_operation_runs_without_a_handler) {
  std::memset(memory.bytes().data(), 9, 64);
  a->async_write(from(), remote(), net::detached);
  server->async_receive(deadline::after(1ms), net::detached);
  run();
  EXPECT_EQ(memory.bytes()[8192], std::byte{9});
}

TEST_F(asio_tokens, as_tuple_returns_code_and_result) {
  spawn([this]() -> awaitable<void> {
    auto [code, received] =
        co_await server->async_receive(deadline::after(1ms), as_tuple(use_awaitable));
    EXPECT_EQ(code, net::error::timed_out);
    EXPECT_TRUE(received.timed_out());
    auto [written, done] = co_await a->async_write(from(), remote(), as_tuple(use_awaitable));
    EXPECT_FALSE(written);
    EXPECT_TRUE(done);
  });
}

TEST_F(asio_tokens, redirect_error_stores_the_code) {
  spawn([this]() -> awaitable<void> {
    std::error_code code;
    const receive_result received = co_await server->async_receive(
        deadline::after(1ms), net::redirect_error(use_awaitable, code));
    EXPECT_EQ(code, net::error::timed_out);
    EXPECT_TRUE(received.timed_out());
    EXPECT_TRUE(
        co_await a->async_write(from(), remote(), net::redirect_error(use_awaitable, code)));
    EXPECT_FALSE(code);
  });
}

TEST_F(asio_tokens, bind_executor_calls_the_handler_on_its_executor) {
  auto strand = net::make_strand(*io);
  int called = 0;
  a->async_write(from(), remote(), net::bind_executor(strand, [&](std::error_code code, auto) {
                   EXPECT_FALSE(code);
                   EXPECT_TRUE(strand.running_in_this_thread());
                   ++called;
                 }));
  run();
  EXPECT_EQ(called, 1);
}

TEST_F(asio_tokens, handler_of_another_context_keeps_it_from_running_out_of_work) {
  net::io_context other;
  std::thread::id called_on;
  server->async_receive(net::bind_executor(other, [&](std::error_code code, auto) {
    EXPECT_FALSE(code);
    called_on = std::this_thread::get_id();
  }));
  std::thread thread([&] { other.run_for(20s); });
  const auto id = thread.get_id();
  // The context would have stopped now without the operation.
  net::steady_timer later(*io, 20ms);
  later.async_wait([&](std::error_code) {
    EXPECT_FALSE(other.stopped());
    client->async_send(some_bytes, net::detached);
  });
  run();
  thread.join();
  EXPECT_EQ(called_on, id);
}

TEST_F(asio_tokens, handlers_on_any_executor_of_the_same_context_are_called) {
  int called = 0;
  const net::any_io_executor same = io->get_executor();
  a->async_write(from(), remote(),
                 net::bind_executor(same, [&](std::error_code, auto) { ++called; }));
  run();
  EXPECT_EQ(called, 1);
}

TEST_F(asio_tokens, parallel_group_cancels_the_operations_that_have_not_ended) {
  bool has_ended = false;
  client->async_send(some_bytes, net::detached);
  auto others = connect_messages();
  asio::message_channel idle(engine, std::move(others.second));
  make_parallel_group(server->async_receive(deferred), idle.async_receive(deferred))
      .async_wait(wait_for_one(), [&](std::array<std::size_t, 2> order, std::error_code first,
                                      const receive_result& message, std::error_code second,
                                      const receive_result& none) {
        EXPECT_EQ(order[0], 0U);
        EXPECT_FALSE(first);
        EXPECT_TRUE(message);
        EXPECT_EQ(second, net::error::operation_aborted);
        EXPECT_FALSE(none);
        has_ended = true;
      });
  run();
  EXPECT_TRUE(has_ended);
}

TEST_F(asio_tokens, group_with_a_timer_limits_an_operation) {
  bool has_ended = false;
  net::steady_timer limit(*io, 2ms);
  make_parallel_group(server->async_receive(deferred), limit.async_wait(deferred))
      .async_wait(wait_for_one(), [&](std::array<std::size_t, 2> order, std::error_code code,
                                      const receive_result&, std::error_code expired) {
        EXPECT_EQ(order[0], 1U);
        EXPECT_EQ(code, net::error::operation_aborted);
        EXPECT_FALSE(expired);
        has_ended = true;
      });
  run();
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(server->get().failure(), nullptr);
}

TEST_F(asio_tokens, awaitable_operators_combine_operations_and_timers) {
  using namespace net::experimental::awaitable_operators;
  spawn([this]() -> awaitable<void> {
    net::steady_timer limit(*io, 2ms);
    const auto outcome =
        co_await (server->async_receive(use_awaitable) || limit.async_wait(use_awaitable));
    EXPECT_EQ(outcome.index(), 1U);
    const std::uint64_t number = 3;
    auto [sent, received] = co_await (client->async_send(bytes_of(number), use_awaitable) &&
                                      server->async_receive(use_awaitable));
    EXPECT_TRUE(sent);
    EXPECT_EQ(number_in(received), 3U);
  });
}

}  // namespace
}  // namespace verbena::test
