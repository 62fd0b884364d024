// SPDX-License-Identifier: MIT
// Operations as senders: completions, stop requests from any thread, lifetimes, and the concepts of
// P2300R10.
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/unit/allocations.hpp"
#include "tests/unit/async/async_pair.hpp"
#include "tests/unit/async/token_env.hpp"
#include "verbena/async/algorithms.hpp"
#include "verbena/async/execution.hpp"
#include "verbena/async/message_channel.hpp"

namespace verbena::test {
namespace {

namespace execution = async::execution;
using async::task;

/// The calls of a receiver.
struct outcome {
  std::optional<operation_result> value;
  int values = 0;
  int stops = 0;
  [[nodiscard]] int calls() const noexcept { return values + stops; }
};

/// A receiver that stores its call in an outcome.
template <class Token = execution::never_stop_token>
struct storing {
  using receiver_concept = execution::receiver_t;

  outcome* into;
  Token token{};

  [[nodiscard]] token_env<Token> get_env() const noexcept { return {token}; }
  void set_value(const operation_result& value) && noexcept {
    into->value = value;
    ++into->values;
  }
  void set_stopped() && noexcept { ++into->stops; }
};

using write_sender = decltype(std::declval<async::channel&>().write(
    std::declval<const source&>(), std::declval<const remote_region&>()));
using write_state = execution::connect_result_t<write_sender, storing<std::stop_token>>;

static_assert(execution::sender<write_sender>);
static_assert(execution::sender_in<write_sender>);
static_assert(execution::sender_to<write_sender, storing<>>);
static_assert(execution::sender_to<write_sender, storing<std::stop_token>>);
static_assert(
    std::is_same_v<execution::completion_signatures_of_t<write_sender>,
                   execution::completion_signatures<execution::set_value_t(operation_result),
                                                    execution::set_stopped_t()>>);
static_assert(execution::receiver<storing<>>);
static_assert(execution::operation_state<write_state>);
static_assert(!std::is_move_constructible_v<write_state> &&
              !std::is_copy_assignable_v<write_state>);
static_assert(execution::scheduler<decltype(std::declval<async::engine&>().get_scheduler())>);
static_assert(execution::stoppable_token<std::stop_token>);
static_assert(execution::unstoppable_token<execution::never_stop_token>);
static_assert(!execution::sender<int> && !execution::receiver<int> && !execution::scheduler<int>);
static_assert(!execution::sender<task<int>>);

/// A receiver without set_stopped().
struct deaf {
  using receiver_concept = execution::receiver_t;
  void set_value(const operation_result& /*value*/) && noexcept {}
};
static_assert(execution::receiver<deaf> && !execution::sender_to<write_sender, deaf>);

class async_senders : public async_pair {
 public:
  [[nodiscard]] auto write(abort_at limit = {}) {
    return a->write(source(memory, 0, 64), memory.remote().slice(128, 64), limit);
  }
  /// Polls until the receiver was called.
  void finish(const outcome& of) {
    const auto until = deadline::after(20s);
    while (of.calls() == 0 && !until.expired()) engine.poll();
    engine.poll();
    EXPECT_EQ(of.calls(), 1);
  }
};

TEST_F(async_senders, operation_sends_its_result) {
  fill(0, 64, 5);
  outcome result;
  auto state = execution::connect(write(), storing<>{&result});
  execution::start(state);
  EXPECT_EQ(result.calls(), 0) << "the receiver is called by poll()";
  finish(result);
  EXPECT_TRUE(result.value.value());
  EXPECT_TRUE(holds(128, 64, 5));
}

TEST_F(async_senders, failed_operation_is_a_value) {
  outcome result;
  auto state = execution::connect(a->write(source(memory, 0, 64), memory.remote().slice(128, 8)),
                                  storing<>{&result});
  execution::start(state);
  EXPECT_EQ(result.values, 1) << "a refused operation ends in start()";
  EXPECT_EQ(result.value->refusal(), refusal::remote_bounds);
}

#ifdef VERBENA_COUNTS_ALLOCATIONS
// The checker of checked builds allocates for a posted operation.
TEST_F(async_senders, connecting_and_starting_allocate_no_more_than_awaiting) {
  std::size_t awaiting = 0;
  for (int i = 0; i < 2; ++i)  // the device allocates for the first operation
    engine.run([](async_senders& of, std::size_t& count) -> task<void> {
      const std::size_t before = allocations;
      EXPECT_TRUE(co_await of.write());
      count = allocations - before;
    }(*this, awaiting));
#ifndef VERBENA_CHECKED
  EXPECT_EQ(awaiting, 0U);
#endif
  outcome result;
  const std::stop_source stops;
  const std::size_t before = allocations;
  auto state = execution::connect(write(), storing<std::stop_token>{&result, stops.get_token()});
  execution::start(state);
  while (result.calls() == 0) engine.poll();
  EXPECT_EQ(allocations - before, awaiting);
}
#endif

TEST_F(async_senders, sender_that_is_dropped_or_not_started_posts_nothing) {
  outcome result;
  static_cast<void>(write());
  {
    auto state = execution::connect(write(), storing<>{&result});
    static_cast<void>(state);
  }
  engine.poll();
  EXPECT_EQ(a->get().in_flight(), 0U);
  EXPECT_EQ(result.calls(), 0);
}

TEST_F(async_senders, operation_state_destroyed_in_flight_flushes_its_operation) {
  outcome result;
  {
    auto state = execution::connect(b->receive(next_sink()), storing<>{&result});
    execution::start(state);
    EXPECT_EQ(b->get().in_flight(), 1U);
  }
  EXPECT_EQ(b->get().in_flight(), 0U);
  engine.poll();
  EXPECT_EQ(result.calls(), 0);
}

/// A receiver that destroys the operation state in its calls.
template <class Held>
struct destroying {
  using receiver_concept = execution::receiver_t;

  std::optional<Held>* state;
  outcome* into;
  std::stop_token token;

  [[nodiscard]] token_env<std::stop_token> get_env() const noexcept { return {token}; }
  void set_value(const operation_result& value) && noexcept {
    auto* const to = into;
    to->value = value;
    state->reset();
    ++to->values;
  }
  void set_stopped() && noexcept {
    auto* const to = into;
    state->reset();
    ++to->stops;
  }
};
/// An operation state that is constructed in place.
template <class Sender>
struct held {
  execution::connect_result_t<Sender, destroying<held>> of;
  held(Sender from, destroying<held> to) : of(execution::connect(std::move(from), std::move(to))) {}
};

TEST_F(async_senders, receiver_may_destroy_the_operation_state) {
  const std::stop_source stops;
  for (int round = 0; round < 20; ++round) {
    outcome result;
    std::optional<held<write_sender>> state;
    state.emplace(write(), destroying<held<write_sender>>{&state, &result, stops.get_token()});
    execution::start(state->of);
    finish(result);
    EXPECT_FALSE(state);
    EXPECT_EQ(result.values, 1);
  }
}

TEST_F(async_senders, receiver_may_destroy_the_operation_state_when_it_is_stopped) {
  std::stop_source stops;
  outcome result;
  using receive = decltype(b->receive(next_sink()));
  std::optional<held<receive>> state;
  state.emplace(b->receive(next_sink()),
                destroying<held<receive>>{&state, &result, stops.get_token()});
  execution::start(state->of);
  stops.request_stop();
  finish(result);
  EXPECT_FALSE(state);
  EXPECT_EQ(result.stops, 1);
}

TEST_F(async_senders, stop_before_the_start_posts_nothing) {
  std::stop_source stops;
  stops.request_stop();
  outcome result;
  auto state = execution::connect(write(), storing<std::stop_token>{&result, stops.get_token()});
  execution::start(state);
  EXPECT_EQ(result.stops, 1);
  EXPECT_EQ(a->get().in_flight(), 0U);
}

TEST_F(async_senders, stop_of_a_posted_operation_ends_the_connection) {
  std::stop_source stops;
  outcome stopped;
  outcome other;
  auto first = execution::connect(b->receive(next_sink()),
                                  storing<std::stop_token>{&stopped, stops.get_token()});
  auto second = execution::connect(b->receive(next_sink()), storing<>{&other});
  execution::start(first);
  execution::start(second);
  stops.request_stop();
  EXPECT_EQ(stopped.calls(), 0) << "the receiver is called by poll()";
  finish(stopped);
  finish(other);
  EXPECT_EQ(stopped.stops, 1);
  EXPECT_EQ(other.value->end(), operation_end::aborted);
}

// The queues have capacity for 4 requests.
TEST_F(async_senders, stop_of_an_operation_that_waits_for_room_leaves_the_connection) {
  std::stop_source stops;
  std::array<outcome, 6> results;
  const auto connect = [&](std::size_t which, std::stop_token token) {
    return execution::connect(b->receive(next_sink()),
                              storing<std::stop_token>{&results.at(which), std::move(token)});
  };
  std::array states = {
      connect(0, {}), connect(1, {}), connect(2, {}), connect(3, {}), connect(4, stops.get_token()),
      connect(5, {})};
  for (auto& each : states) execution::start(each);
  stops.request_stop();
  finish(results[4]);
  EXPECT_EQ(results[4].stops, 1);
  for (int i = 0; i < 5; ++i) {
    outcome sent;
    auto sending = execution::connect(a->send(source(memory, 0, 8)), storing<>{&sent});
    execution::start(sending);
    finish(sent);
  }
  for (const std::size_t i : {0U, 1U, 2U, 3U, 5U}) {
    finish(results.at(i));
    EXPECT_TRUE(results.at(i).value.value());
  }
}

TEST_F(async_senders, stop_after_the_success_has_no_effect) {
  std::stop_source stops;
  outcome result;
  auto state = execution::connect(write(), storing<std::stop_token>{&result, stops.get_token()});
  execution::start(state);
  finish(result);
  stops.request_stop();
  engine.poll();
  EXPECT_EQ(result.values, 1);
  EXPECT_EQ(result.calls(), 1);
  EXPECT_NE(a->get().qp(), nullptr);
}

TEST_F(async_senders, operation_state_may_be_destroyed_with_a_stop_request_in_the_engine) {
  std::stop_source stops;
  outcome result;
  {
    auto state = execution::connect(b->receive(next_sink()),
                                    storing<std::stop_token>{&result, stops.get_token()});
    execution::start(state);
    stops.request_stop();
  }
  engine.poll();
  EXPECT_EQ(result.calls(), 0);
}

// Another thread requests stops while operations complete.
TEST_F(async_senders, stop_requests_of_other_threads_end_each_operation_once) {
  for (int round = 0; round < 100; ++round) {
    if (!b || !b->get().qp()) {
      a.reset();
      b.reset();
      auto [one, other] = connect();
      a.emplace(engine, std::move(one));
      b.emplace(engine, std::move(other));
    }
    std::stop_source stops;
    std::array<outcome, 8> results;
    const auto writing = [&](std::size_t which) {
      return execution::connect(write(),
                                storing<std::stop_token>{&results.at(which), stops.get_token()});
    };
    std::array states = {writing(0), writing(1), writing(2), writing(3),
                         writing(4), writing(5), writing(6), writing(7)};
    for (auto& each : states) execution::start(each);
    std::jthread stopping([&] { stops.request_stop(); });
    for (const auto& each : results) finish(each);
  }
}

TEST_F(async_senders, engine_runs_a_sender) {
  const auto done = engine.run(write());
  ASSERT_TRUE(done);
  EXPECT_TRUE(std::get<0>(*done));
}

/// A sender that completes with a number on its own thread.
struct sender_of_a_thread {
  using sender_concept = execution::sender_t;
  using completion_signatures = execution::completion_signatures<execution::set_value_t(int)>;

  template <class Receiver>
  struct state {
    using operation_state_concept = execution::operation_state_t;
    Receiver to;
    std::jthread thread{};
    void start() noexcept {
      thread = std::jthread([this] { execution::set_value(std::move(to), 7); });
    }
  };
  template <class Receiver>
  [[nodiscard]] state<Receiver> connect(Receiver to) const {
    return {std::move(to)};
  }
};

TEST_F(async_senders, engine_runs_a_sender_that_completes_on_another_thread) {
  auto other = async::engine::create(context, {.operations = 1, .spin = 0ns}).value();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(std::get<0>(other.run(sender_of_a_thread()).value()), 7);
}

TEST_F(async_senders, scheduler_of_an_operation_is_that_of_its_engine) {
  const auto on =
      execution::get_completion_scheduler<execution::set_value_t>(execution::get_env(write()));
  EXPECT_TRUE(on == engine.get_scheduler());
}

/// A receiver that stores the thread of its call.
struct thread_storing {
  using receiver_concept = execution::receiver_t;

  std::thread::id* into;
  std::stop_token token;

  [[nodiscard]] token_env<std::stop_token> get_env() const noexcept { return {token}; }
  void set_value() && noexcept { *into = std::this_thread::get_id(); }
  void set_stopped() && noexcept { *into = {}; }
};

TEST_F(async_senders, schedule_completes_on_the_thread_of_the_engine) {
  std::thread::id called;
  auto state =
      execution::connect(execution::schedule(engine.get_scheduler()), thread_storing{&called, {}});
  std::jthread([&] { execution::start(state); }).join();
  EXPECT_EQ(called, std::thread::id());
  EXPECT_EQ(engine.poll(), 1U);
  EXPECT_EQ(called, std::this_thread::get_id());
}

TEST_F(async_senders, schedule_of_a_destroyed_state_or_a_stopped_receiver_sends_no_value) {
  std::stop_source stops;
  stops.request_stop();
  const auto self = std::this_thread::get_id();
  std::array<std::thread::id, 3> called = {self, self, self};
  const auto connect = [&](std::size_t which, std::stop_token token) {
    return execution::connect(execution::schedule(engine.get_scheduler()),
                              thread_storing{&called.at(which), std::move(token)});
  };
  auto stopped = connect(0, stops.get_token());
  auto last = connect(2, {});
  {
    auto destroyed = connect(1, stops.get_token());
    execution::start(stopped);
    execution::start(destroyed);
    execution::start(last);
  }
  called[2] = {};
  EXPECT_FALSE(engine.arm()) << "entries are left";
  EXPECT_EQ(engine.poll(), 2U);
  EXPECT_EQ(called[0], std::thread::id());
  EXPECT_EQ(called[1], self);
  EXPECT_EQ(called[2], self);
}

TEST_F(async_senders, engine_runs_schedule) {
  EXPECT_TRUE(engine.run(execution::schedule(engine.get_scheduler())));
}

TEST_F(async_senders, then_passes_the_result_to_a_function) {
  auto failed = execution::then(
      write(), [](const operation_result& done) noexcept { return !done.has_value(); });
  static_assert(std::is_same_v<execution::completion_signatures_of_t<decltype(failed)>,
                               execution::completion_signatures<execution::set_value_t(bool),
                                                                execution::set_stopped_t()>>);
  EXPECT_EQ(engine.run(std::move(failed)), std::tuple(false));
  int calls = 0;
  const auto count = [&](const operation_result& /*done*/) { ++calls; };
  EXPECT_TRUE(engine.run(execution::then(write(), count)));
  EXPECT_EQ(calls, 1);
}

TEST_F(async_senders, value_to_which_a_function_returns_a_reference_is_copied) {
  const auto forward = [](operation_result&& done) noexcept -> decltype(auto) {
    return std::move(done);
  };
  using results = std::optional<std::tuple<operation_result>>;
  auto done = engine.run(execution::then(write(), forward));
  static_assert(std::is_same_v<decltype(done), results>);
  ASSERT_TRUE(done);
  EXPECT_TRUE(std::get<0>(*done));
  auto all = engine.run(execution::when_all(execution::then(write(), forward)));
  static_assert(std::is_same_v<decltype(all), results>);
  ASSERT_TRUE(all);
  EXPECT_TRUE(std::get<0>(*all));
}

TEST_F(async_senders, exception_in_a_function_of_then_is_thrown_by_run) {
  const auto fail = [](const operation_result& /*done*/) -> int { throw std::runtime_error("no"); };
  EXPECT_THROW(static_cast<void>(engine.run(execution::then(write(), fail))), std::runtime_error);
  EXPECT_TRUE(engine.run(write())) << "the engine and the channel are unaffected";
}

TEST_F(async_senders, when_all_completes_with_all_values) {
  fill(0, 64, 7);
  auto read = a->read(sink(memory, 512, 32), memory.remote().slice(0, 32));
  const auto done = engine.run(execution::when_all(
      write(), std::move(read), execution::then(write(), [](auto&&) noexcept { return 5; })));
  ASSERT_TRUE(done);
  const auto& [written, read_bytes, five] = *done;
  EXPECT_TRUE(written);
  EXPECT_EQ(read_bytes.value(), 32U);
  EXPECT_EQ(five, 5);
  EXPECT_TRUE(holds(512, 32, 7));
}

TEST_F(async_senders, when_all_stops_the_others_after_an_error) {
  const auto fail = [](const operation_result& /*done*/) -> int { throw std::runtime_error("no"); };
  EXPECT_THROW(static_cast<void>(engine.run(
                   execution::when_all(b->receive(next_sink()), execution::then(write(), fail)))),
               std::runtime_error);
  EXPECT_EQ(b->get().in_flight(), 0U);
}

TEST_F(async_senders, when_all_passes_a_stop_request_on) {
  std::stop_source stops;
  outcome result;
  struct both {
    using receiver_concept = execution::receiver_t;
    outcome* into;
    std::stop_token token;
    [[nodiscard]] token_env<std::stop_token> get_env() const noexcept { return {token}; }
    void set_value(const operation_result&, const operation_result&) && noexcept { ++into->values; }
    void set_error(const std::exception_ptr& /*why*/) && noexcept { ADD_FAILURE(); }
    void set_stopped() && noexcept { ++into->stops; }
  };
  auto state =
      execution::connect(execution::when_all(b->receive(next_sink()), b->receive(next_sink())),
                         both{&result, stops.get_token()});
  execution::start(state);
  engine.poll();
  EXPECT_EQ(result.calls(), 0);
  stops.request_stop();
  finish(result);
  EXPECT_EQ(result.stops, 1);
}

/// A value whose copies or moves throw.
template <bool Copies>
struct throwing_value {
  throwing_value() = default;
  throwing_value(const throwing_value& /*other*/) {
    if (Copies) throw std::runtime_error("copied");
  }
  throwing_value(throwing_value&& /*other*/) {  // NOLINT(*-noexcept-move*): the case of the test
    throw std::runtime_error("moved");
  }
  throwing_value& operator=(const throwing_value&) = delete;
  ~throwing_value() = default;
};

/// A sender that completes at once with a reference to a value.
template <class Value>
struct sends_reference {
  using sender_concept = execution::sender_t;
  using completion_signatures =
      execution::completion_signatures<execution::set_value_t(const Value&)>;
  template <class Receiver>
  struct state {
    using operation_state_concept = execution::operation_state_t;
    const Value* value;
    Receiver to;
    void start() noexcept { execution::set_value(std::move(to), *value); }
  };
  const Value* value;
  [[nodiscard]] execution::empty_env get_env() const noexcept { return {}; }
  template <execution::receiver Receiver>
  [[nodiscard]] state<Receiver> connect(Receiver to) && {
    return {value, std::move(to)};
  }
};

TEST_F(async_senders, exception_of_a_copied_value_is_thrown_by_run) {
  const throwing_value<true> value;
  EXPECT_THROW(static_cast<void>(engine.run(sends_reference<throwing_value<true>>{&value})),
               std::runtime_error);
  EXPECT_TRUE(engine.run(write())) << "the engine is unaffected";
}

TEST_F(async_senders, exception_of_a_value_of_when_all_is_an_error) {
  const throwing_value<true> copied;
  EXPECT_THROW(static_cast<void>(engine.run(execution::when_all(
                   b->receive(next_sink()), sends_reference<throwing_value<true>>{&copied}))),
               std::runtime_error);
  EXPECT_EQ(b->get().in_flight(), 0U) << "the other operation was stopped";
  const throwing_value<false> moved;
  EXPECT_THROW(static_cast<void>(
                   engine.run(execution::when_all(sends_reference<throwing_value<false>>{&moved}))),
               std::runtime_error);
}

}  // namespace
}  // namespace verbena::test
