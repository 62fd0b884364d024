// SPDX-License-Identifier: MIT
// Cancellation slots: each operation in each state.
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/detached.hpp>
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

TEST_F(asio_cancellation, operation_that_has_ended_is_not_cancelled) {
  ASSERT_TRUE(client->get().try_send(some_bytes));
  while (!server->get().has_message()) server->get().progress();
  std::optional<std::error_code> code;
  server->async_receive(stores(code));
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

TEST_F(asio_cancellation, message_that_arrived_is_not_lost_by_a_cancellation) {
  std::optional<std::error_code> code;
  server->async_receive(stores(code));
  ASSERT_TRUE(client->get().try_send(some_bytes));
  while (!server->get().has_message()) server->get().progress();
  signal.emit(cancellation_type::total);
  run();
  EXPECT_EQ(code, std::error_code());
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
