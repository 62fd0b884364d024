// SPDX-License-Identifier: MIT
// Cancellation slots: each operation in each state.
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/experimental/deferred.hpp>
#include <asio/experimental/parallel_group.hpp>
#include <asio/use_awaitable.hpp>
#include <vector>

#include "tests/unit/asio/asio_pair.hpp"

namespace verbena::test {
namespace {

using net::cancellation_type;

constexpr std::array all_types{cancellation_type::terminal, cancellation_type::partial,
                               cancellation_type::total};

class asio_cancellation : public asio_pair {
 public:
  /// Returns a handler that stores the code, with the slot of `signal`.
  [[nodiscard]] auto stores(std::optional<std::error_code>& code) {
    return net::bind_cancellation_slot(signal.slot(),
                                       [&code](std::error_code ended, const auto&...) {
                                         EXPECT_FALSE(code) << "called twice";
                                         code = ended;
                                       });
  }
  net::cancellation_signal signal;
};

TEST_F(asio_cancellation, receive_that_waits_is_cancelled_by_each_type) {
  for (const auto type : all_types) {
    std::optional<std::error_code> code;
    server->async_receive(stores(code));
    io->restart();
    io->poll();
    signal.emit(type);
    EXPECT_FALSE(code) << "not called by emit()";
    run();
    EXPECT_EQ(code, net::error::operation_aborted);
  }
  const std::uint64_t number = 5;
  client->async_send(bytes_of(number), net::detached);
  std::uint64_t received = 0;
  server->async_receive(
      [&](std::error_code, const receive_result& message) { received = number_in(message); });
  run();
  EXPECT_EQ(received, 5U) << "the channel is unaffected";
}

TEST_F(asio_cancellation, send_that_waits_for_room_is_cancelled_by_each_type) {
  exhaust();
  for (const auto type : all_types) {
    std::optional<std::error_code> code;
    client->async_send(some_bytes, stores(code));
    signal.emit(type);
    run();
    EXPECT_EQ(code, net::error::operation_aborted);
    client->async_send(client->get().take_buffer(deadline::after(20s)).value(), {},
                       stores(code = {}));
    signal.emit(type);
    run();
    EXPECT_EQ(code, net::error::operation_aborted);
  }
  EXPECT_EQ(client->get().failure(), nullptr);
  EXPECT_EQ(client->get().sent(), 4U);
}

TEST_F(asio_cancellation, drain_that_waits_is_cancelled_by_each_type) {
  for (const auto type : all_types) {
    std::optional<std::error_code> code;
    ASSERT_TRUE(client->get().try_send(some_bytes));
    client->async_drain(stores(code));
    // A device that completes at once has delivered it by now.
    signal.emit(type);
    run();
    ASSERT_TRUE(code);
    EXPECT_TRUE(!*code || *code == net::error::operation_aborted) << code->message();
    ASSERT_TRUE(server->get().receive(deadline::after(20s)));
  }
  EXPECT_EQ(client->get().failure(), nullptr);
}

TEST_F(asio_cancellation, operation_that_waits_for_room_leaves_the_connection) {
  for (const auto type : all_types) {
    int received = 0;
    const auto count = [&](std::error_code ended, operation_result) { received += !ended ? 1 : 0; };
    for (std::size_t i = 0; i < 4; ++i) b->async_receive(into(i), count);
    std::optional<std::error_code> code;
    b->async_receive(into(4), stores(code));
    signal.emit(type);
    io->restart();
    io->poll();
    EXPECT_EQ(code, net::error::operation_aborted);
    for (int i = 0; i < 4; ++i) a->async_send(from(), net::detached);
    run();
    EXPECT_EQ(received, 4) << "the connection is unaffected";
  }
}

TEST_F(asio_cancellation, posted_operation_is_cancelled_by_terminal_and_ends_the_connection) {
  std::optional<std::error_code> code;
  std::optional<std::error_code> other;
  b->async_receive(into(0), stores(code));
  b->async_receive(into(1), [&](std::error_code ended, operation_result done) {
    other = ended;
    EXPECT_EQ(done.end(), operation_end::aborted);
  });
  signal.emit(cancellation_type::total);
  signal.emit(cancellation_type::partial);
  io->restart();
  io->poll();
  EXPECT_FALSE(code) << "the device may access the memory";
  signal.emit(cancellation_type::terminal);
  run();
  EXPECT_EQ(code, net::error::operation_aborted);
  EXPECT_EQ(other, net::error::operation_aborted);
}

TEST_F(asio_cancellation, channel_is_released_and_connected_again) {
  std::optional<std::error_code> code;
  b->async_receive(into(0), stores(code));
  signal.emit(cancellation_type::terminal);
  run();
  EXPECT_EQ(code, net::error::operation_aborted);
  auto one = std::move(*a).release();
  auto other = std::move(*b).release();
  auto first = one.prepare_reconnect().value();
  auto second = other.prepare_reconnect().value();
  const auto ends = std::pair(first.endpoint(), second.endpoint());
  ASSERT_TRUE(std::move(first).handshake(ends.second));
  ASSERT_TRUE(std::move(second).handshake(ends.first));
  asio::channel from_one(engine, std::move(one));
  asio::channel to_other(engine, std::move(other));
  int received = 0;
  to_other.async_receive(into(0),
                         [&](std::error_code ended, const auto&) { received += !ended ? 1 : 0; });
  from_one.async_send(from(), net::detached);
  run();
  EXPECT_EQ(received, 1);
}

TEST_F(asio_cancellation, message_channel_is_released_and_used_again) {
  std::optional<std::error_code> code;
  server->async_receive(stores(code));
  auto released = std::move(*server).release();
  run();
  EXPECT_EQ(code, net::error::operation_aborted);
  asio::message_channel again(engine, std::move(released));
  again.async_receive(stores(code = {}));
  client->async_send(some_bytes, net::detached);
  run();
  EXPECT_EQ(code, std::error_code());
}

TEST_F(asio_cancellation, operation_that_has_ended_is_not_cancelled) {
  std::optional<std::error_code> code;
  client->async_send(some_bytes, stores(code));
  for (const auto type : all_types) signal.emit(type);
  run();
  EXPECT_EQ(code, std::error_code());
  code.reset();
  const auto other = context.allocate_pd().value();
  const auto foreign = other.allocate(64, access::local_write).value();
  a->async_send(source(foreign), stores(code));
  signal.emit(cancellation_type::terminal);
  run();
  EXPECT_EQ(code, net::error::invalid_argument);
  EXPECT_NE(a->get().qp(), nullptr);
}

TEST_F(asio_cancellation, message_that_arrived_stays_in_the_channel_after_a_cancellation) {
  for (const bool has_arrived : {false, true}) {
    std::optional<std::error_code> code;
    if (!has_arrived) server->async_receive(stores(code));
    ASSERT_TRUE(client->get().try_send(some_bytes));
    while (!server->get().has_message()) server->get().progress();
    if (has_arrived) server->async_receive(stores(code));
    signal.emit(cancellation_type::total);
    run();
    EXPECT_EQ(code, net::error::operation_aborted);
    EXPECT_TRUE(server->get().try_receive());
  }
}

TEST_F(asio_cancellation, receive_that_is_cancelled_gives_its_turn_to_the_next) {
  std::optional<std::error_code> code;
  server->async_receive(stores(code));
  int received = 0;
  server->async_receive(
      [&](std::error_code, const receive_result& message) { received += message ? 1 : 0; });
  ASSERT_TRUE(client->get().try_send(some_bytes));
  while (!server->get().has_message()) server->get().progress();
  signal.emit(cancellation_type::total);
  run();
  EXPECT_EQ(code, net::error::operation_aborted);
  EXPECT_EQ(received, 1);
}

TEST_F(asio_cancellation, receive_whose_deadline_has_passed_takes_a_message_that_has_arrived) {
  const auto receive = [&] {
    std::optional<std::error_code> code;
    server->async_receive(deadline::at({}),
                          [&](std::error_code ended, const receive_result&) { code = ended; });
    run();
    return code;
  };
  EXPECT_EQ(receive(), net::error::timed_out);
  ASSERT_TRUE(client->get().try_send(some_bytes));
  while (!server->get().has_message()) server->get().progress();
  EXPECT_EQ(receive(), std::error_code());
}

TEST_F(asio_cancellation, receives_whose_deadlines_have_passed_take_all_messages) {
  std::vector<std::uint64_t> received;
  int timeouts = 0;
  const auto receive = [&] {
    server->async_receive(deadline::at({}), [&](std::error_code ended, const receive_result& one) {
      if (one) return received.push_back(number_in(one));
      EXPECT_EQ(ended, net::error::timed_out);
      ++timeouts;
    });
  };
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(client->get().try_send(bytes_of(i)));
  const auto until = deadline::after(20s);
  while (server->get().received() < 4 && !until.expired()) server->get().progress();
  for (int i = 0; i < 5; ++i) receive();
  run();
  EXPECT_EQ(received, std::vector<std::uint64_t>({0, 1, 2, 3}));
  EXPECT_EQ(timeouts, 1);
}

TEST_F(asio_cancellation, either_of_two_receives_leaves_the_message_of_the_other) {
  auto [left, right] = connect_messages();
  asio::message_channel other_client(engine, std::move(left));
  asio::message_channel other_server(engine, std::move(right));
  for (const auto* each : {&*client, &other_client}) ASSERT_TRUE(each->get().try_send(some_bytes));
  for (const auto* each : {&*server, &other_server})
    while (!each->get().has_message()) each->get().progress();
  std::optional<std::size_t> first;
  net::co_spawn(
      *io,
      [&]() -> net::awaitable<void> {
        using namespace net::experimental::awaitable_operators;
        const auto received = co_await (server->async_receive(net::use_awaitable) ||
                                        other_server.async_receive(net::use_awaitable));
        first = received.index();
      },
      net::detached);
  run();
  ASSERT_TRUE(first);
  auto& loser = *first == 0 ? other_server : *server;
  EXPECT_TRUE(loser.get().try_receive());
}

TEST_F(asio_cancellation, receive_in_a_group_with_an_ended_send_leaves_its_message) {
  ASSERT_TRUE(client->get().try_send(some_bytes));
  while (!server->get().has_message()) server->get().progress();
  std::optional<std::error_code> sent;
  std::optional<std::error_code> received;
  using net::experimental::deferred;
  net::experimental::make_parallel_group(server->async_send(some_bytes, deferred),
                                         server->async_receive(deferred))
      .async_wait(net::experimental::wait_for_one(),
                  [&](const std::array<std::size_t, 2>& /*order*/, std::error_code one,
                      const send_result& /*result*/, std::error_code other,
                      const receive_result& /*message*/) {
                    sent = one;
                    received = other;
                  });
  run();
  EXPECT_EQ(sent, std::error_code());
  EXPECT_EQ(received, net::error::operation_aborted);
  EXPECT_TRUE(server->get().try_receive());
}

TEST_F(asio_cancellation, signal_may_be_destroyed_before_the_operation_ends) {
  int called = 0;
  {
    net::cancellation_signal brief;
    server->async_receive(net::bind_cancellation_slot(
        brief.slot(), [&](std::error_code, const receive_result&) { ++called; }));
  }
  client->async_send(some_bytes, net::detached);
  run();
  EXPECT_EQ(called, 1);
}

TEST_F(asio_cancellation, signal_that_is_emitted_after_the_handler_has_no_effect) {
  std::optional<std::error_code> code;
  client->async_send(some_bytes, stores(code));
  run();
  EXPECT_EQ(code, std::error_code());
  for (const auto type : all_types) signal.emit(type);
  run();
}

}  // namespace
}  // namespace verbena::test
