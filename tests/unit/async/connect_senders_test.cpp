// SPDX-License-Identifier: MIT
// accept(), connect(), steps and descriptors as senders: values, stop requests and exceptions.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <tuple>
#include <utility>

#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/channel/message_pair.hpp"
#include "verbena/async/algorithms.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/async/message_listener.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;
namespace execution = async::execution;

struct stop_env {
  std::stop_token token;
  [[nodiscard]] std::stop_token query(execution::get_stop_token_t /*which*/) const noexcept {
    return token;
  }
};

/// The calls of a receiver.
struct calls {
  int values = 0;
  int stops = 0;
  int errors = 0;
};

/// A receiver that counts its calls.
struct counts_calls {
  using receiver_concept = execution::receiver_t;

  calls* into;
  std::stop_token token;

  [[nodiscard]] stop_env get_env() const noexcept { return {token}; }
  template <class Value>
  void set_value(const Value& /*value*/) && noexcept {
    ++into->values;
  }
  void set_error(const std::exception_ptr& /*why*/) && noexcept { ++into->errors; }
  void set_stopped() && noexcept { ++into->stops; }
};

using connect_sender =
    decltype(async::connect(std::declval<async::engine&>(), std::declval<protection_domain&>(),
                            std::declval<bringup::address&>(), deadline::never()));
static_assert(execution::sender_to<connect_sender, counts_calls>);
static_assert(execution::sender_to<decltype(std::declval<async::message_listener&>().accept()),
                                   counts_calls>);
static_assert(execution::sender_to<
              decltype(std::declval<async::engine&>().complete(std::declval<steps<int>>())),
              counts_calls>);
static_assert(
    execution::sender_to<decltype(std::declval<async::engine&>().readable(0)), counts_calls>);

class connect_senders : public ::testing::Test {
 public:
  void SetUp() override {
    if (is_iwarp(context)) GTEST_SKIP() << "iWARP connects by the connection manager";
  }
  [[nodiscard]] auto connect(std::uint16_t port) {
    const bringup::address to{.host = "127.0.0.1", .port = port};
    return async::connect(engine, pd, to, deadline::after(20s), {.channel = tiny(4)});
  }
  [[nodiscard]] async::message_listener open() {
    return {engine, pd, peers::listen(), {.channels = tiny(4)}};
  }
  void poll_for(std::chrono::nanoseconds duration) {
    for (const auto until = deadline::after(duration); !until.expired();) engine.poll();
  }
  [[nodiscard]] static std::ptrdiff_t descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  }
  /// Starts the operation, requests a stop, and expects set_stopped().
  template <class Sender>
  void expect_stopped(Sender&& what) {
    const auto before = descriptors();
    calls made;
    std::stop_source stops;
    {
      auto state =
          execution::connect(std::forward<Sender>(what), counts_calls{&made, stops.get_token()});
      execution::start(state);
      poll_for(5ms);
      EXPECT_EQ(made.values + made.stops, 0);
      stops.request_stop();
      EXPECT_EQ(made.stops, 0) << "the receiver is called by poll()";
      poll_for(1ms);
      EXPECT_EQ(made.stops, 1);
      EXPECT_EQ(descriptors(), before) << "before the operation state is destroyed";
    }
    EXPECT_EQ(made.values + made.errors, 0);
  }

  verbena::context context = open_tested();
  protection_domain pd = context.allocate_pd().value();
  async::engine engine = async::engine::create(context).value();
};

TEST_F(connect_senders, both_sides_complete_with_channels) {
  auto listener = open();
  auto both = engine.run(
      execution::when_all(listener.accept(deadline::after(20s)), connect(listener.port())));
  ASSERT_TRUE(both);
  EXPECT_TRUE(std::get<0>(*both));
  EXPECT_TRUE(std::get<1>(*both));
}

TEST_F(connect_senders, connecting_begins_when_the_operation_state_is_started) {
  auto listener = open();
  calls made;
  auto state = execution::connect(connect(listener.port()), counts_calls{&made, {}});
  poll_for(5ms);
  EXPECT_EQ(listener.statistics().accepted + listener.statistics().failed, 0U);
  execution::start(state);
  const auto accepted = engine.run(listener.accept(deadline::after(20s)));
  EXPECT_TRUE(std::get<0>(accepted.value()));
  poll_for(20ms);
  EXPECT_EQ(made.values, 1);
}

TEST_F(connect_senders, failure_is_a_value) {
  const auto port = peers::listen().port();
  const auto outcome = engine.run(connect(port));
  EXPECT_EQ(std::get<0>(outcome.value()).error().code(), ECONNREFUSED);
}

TEST_F(connect_senders, stop_ends_each_operation_and_leaves_nothing) {
  const auto silent = peers::listen();
  auto listener = open();
  expect_stopped(connect(silent.port()));
  expect_stopped(listener.accept());
  const auto idle = peers::raw_connection(silent.port());
  expect_stopped(engine.readable(idle.get()));
  auto both = engine.run(
      execution::when_all(listener.accept(deadline::after(20s)), connect(listener.port())));
  EXPECT_TRUE(both && std::get<0>(*both) && std::get<1>(*both));
}

steps<int> steps_that_fail() {
  static_cast<void>(co_await detail::expiry(deadline::after(1ms)));
  throw std::runtime_error("a step threw");
  co_return 0;
}

TEST_F(connect_senders, exception_of_a_step_is_an_error) {
  EXPECT_THROW(static_cast<void>(engine.run(engine.complete(steps_that_fail()))),
               std::runtime_error);
}

}  // namespace
}  // namespace verbena::test
