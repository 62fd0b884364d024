// SPDX-License-Identifier: MIT
// The event loop of an engine: tasks, scopes, timers, other threads, sleeping, and event loops of
// the program.
#include "verbena/async/engine.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/async/async_pair.hpp"
#include "tests/unit/async/owned_coroutine.hpp"
#include "tests/unit/campaign_seed.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/log.hpp"
#include "verbena/base/result.hpp"
#include "verbena/memory/buffer_pool.hpp"

namespace verbena::test {
namespace {

using async::task;

using async_engine = async_pair;

task<int> twice(int value) { co_return 2 * value; }
task<std::string> text_of(int value) { co_return std::to_string(co_await twice(value)); }

TEST_F(async_engine, run_returns_the_value_of_a_task) { EXPECT_EQ(engine.run(text_of(21)), "42"); }

TEST_F(async_engine, exceptions_pass_through_tasks) {
  const auto fail = [](async::engine& on) -> task<int> {
    co_await on.yield();
    throw std::runtime_error("no");
  };
  const auto pass = [&](async::engine& on) -> task<int> { co_return co_await fail(on); };
  EXPECT_THROW(engine.run(pass(engine)), std::runtime_error);
}

TEST_F(async_engine, task_that_never_started_can_be_destroyed) {
  auto unused = text_of(1);
  unused = text_of(2);
}

TEST_F(async_engine, started_task_that_was_moved_must_end_before_it_is_destroyed) {
  const auto wait = [](async::engine& on) -> task<void> { co_await on.yield(); };
  EXPECT_DEATH(
      {
        auto waiting = wait(engine);
        static_cast<void>(
            std::move(waiting).operator co_await().await_suspend(std::noop_coroutine()));
        // NOLINTNEXTLINE(bugprone-use-after-move): operator co_await leaves the task in place
        const auto moved = std::move(waiting);
      },
      "a task was destroyed before it ended");
}

/// Resumes the coroutine on another thread, which ends before await_suspend() returns.
struct another_thread {
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) const {
    std::thread([caller] { caller.resume(); }).join();
  }
  [[nodiscard]] std::thread::id await_resume() const noexcept { return std::this_thread::get_id(); }
};

TEST_F(async_engine, caller_continues_on_the_thread_on_which_its_task_ended) {
  const auto child = []() -> task<std::thread::id> { co_return co_await another_thread(); };
  std::thread::id of_child;
  std::thread::id of_parent;
  const auto parent = [&]() -> async::detail::started_coroutine {
    of_child = co_await child();
    of_parent = std::this_thread::get_id();
  };
  parent();
  EXPECT_NE(of_child, std::this_thread::get_id());
  EXPECT_EQ(of_parent, of_child);
}

/// Resumes the coroutine on another thread, after the engine has begun to sleep.
struct later_on_another_thread {
  std::thread& thread;
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) const {
    thread = std::thread([caller] {
      // lint: allow(sleep): an engine reports no event when it begins to sleep.
      std::this_thread::sleep_for(50ms);
      caller.resume();
    });
  }
  void await_resume() const noexcept {}
};

TEST_F(async_engine, run_ends_if_its_task_ends_on_another_thread) {
  auto other = async::engine::create(context, {.operations = 1, .spin = 0ns}).value();
  std::thread ending;
  const auto root = [&]() -> task<int> {
    co_await later_on_another_thread{ending};
    co_return 7;
  };
  EXPECT_EQ(other.run(root()), 7);
  ending.join();
}

owned_coroutine yield_to(const async::engine& on) {
  co_await on.yield();
  ADD_FAILURE() << "resumed";
}
owned_coroutine enter_to(const async::engine& on) {
  co_await on.enter();
  ADD_FAILURE() << "resumed";
}

TEST_F(async_engine, coroutine_that_was_destroyed_in_yield_or_enter_is_not_resumed) {
  for (const std::size_t destroyed : {0U, 1U, 2U}) {
    std::array yielding{yield_to(engine), yield_to(engine), yield_to(engine)};
    std::array entering{enter_to(engine), enter_to(engine), enter_to(engine)};
    yielding.at(destroyed).handle.destroy();
    entering.at(destroyed).handle.destroy();
    for (std::size_t i = 0; i < yielding.size(); ++i) {
      if (i == destroyed) continue;
      yielding.at(i).handle.destroy();
      entering.at(i).handle.destroy();
    }
    EXPECT_EQ(engine.poll(), 0U);
  }
}

// Sanitizers detect if the other thread uses the engine after the coroutine has ended the loop.
TEST_F(async_engine, engine_may_be_destroyed_by_the_coroutine_that_entered_it) {
  const int rounds = campaign_size(50, 20'000);
  for (int round = 0; round < rounds; ++round) {
    auto other =
        std::make_unique<async::engine>(async::engine::create(context, {.operations = 1}).value());
    bool has_entered = false;
    const auto enter = [](const async::engine& to,
                          bool& entered) -> async::detail::started_coroutine {
      co_await to.enter();
      entered = true;
    };
    std::thread thread([&] { enter(*other, has_entered); });
    while (!has_entered) other->poll();
    other.reset();
    thread.join();
  }
}

#if defined(__GNUC__) && !defined(__clang__) && (__GNUC__ * 100 + __GNUC_MINOR__ < 1203)
task<bool> is_positive(int value) { co_return value > 0; }
task<void> awaits_in_a_condition(bool& reached) {
  if (co_await is_positive(1)) reached = true;
}
TEST_F(async_engine, coroutine_that_the_compiler_gets_wrong_stops_the_program) {
  bool reached = false;
  EXPECT_DEATH(engine.run(awaits_in_a_condition(reached)), "GCC bug 106188.*engine_test.cpp");
}
#endif

// The stack must not grow with the number of tasks that end immediately.
TEST_F(async_engine, loop_of_tasks_does_not_use_up_the_stack) {
  const auto sum = []() -> task<long> {
    long all = 0;
    for (int i = 0; i < 1'000'000; ++i) all += co_await twice(i);
    co_return all;
  };
  EXPECT_EQ(engine.run(sum()), 999'999'000'000L);
}

TEST_F(async_engine, scope_waits_for_its_tasks_and_throws_the_first_exception) {
  int ended = 0;
  const auto root = [&](async::engine& on) -> task<void> {
    const auto count = [&](int yields) -> task<void> {
      for (int i = 0; i < yields; ++i) co_await on.yield();
      ++ended;
      if (yields % 2 == 1) throw yields;
    };
    async::scope running;
    for (int i = 0; i < 10; ++i) running.spawn(count(i));
    EXPECT_EQ(running.running(), 9U) << "one has ended before it waited";
    co_await running.join();
  };
  try {
    engine.run(root(engine));
    ADD_FAILURE() << "no exception";
  } catch (int first) {
    EXPECT_EQ(first, 1);
  }
  EXPECT_EQ(ended, 10);
}

TEST_F(async_engine, with_scope_waits_for_its_tasks_after_an_exception) {
  int ended = 0;
  const auto wait = [&](async::engine& on) -> task<void> {
    for (int i = 0; i < 3; ++i) co_await on.yield();
    ++ended;
    throw 5;
  };
  for (const bool throws : {true, false}) {
    const auto body = [&](async::scope& running) -> task<void> {
      running.spawn(wait(engine));
      co_await engine.yield();
      if (throws) throw 4;
    };
    int thrown = 0;
    try {
      engine.run(async::with_scope(body));
    } catch (int which) {
      thrown = which;
    }
    EXPECT_EQ(thrown, throws ? 4 : 5);
    EXPECT_EQ(ended, throws ? 1 : 2);
  }
}

TEST_F(async_engine, exception_of_a_task_that_is_not_joined_is_logged) {
  const auto fail = []() -> task<void> {
    throw 1;
    co_return;
  };
  std::string lines;
  set_log_hook([](log_level, std::string_view line,
                  void* into) { static_cast<std::string*>(into)->append(line); },
               &lines, log_level::error);
  {
    async::scope running;
    running.spawn(fail());
  }
  set_log_hook(nullptr);
  EXPECT_NE(lines.find("join()"), std::string::npos) << lines;
}

TEST_F(async_engine, task_returns_a_default_value) {
  const auto succeed = []() -> task<result<void>> { co_return {}; };
  EXPECT_TRUE(engine.run(succeed()));
}

TEST_F(async_engine, parameters_of_tasks_are_destroyed_before_join_returns) {
  const auto keep = [](async::engine& on, std::shared_ptr<int> kept) -> task<void> {
    co_await on.yield();
    EXPECT_NE(kept, nullptr);
  };
  const auto root = [&](async::engine& on) -> task<void> {
    const auto kept = std::make_shared<int>(1);
    async::scope running;
    running.spawn(keep(on, kept));
    co_await running.join();
    EXPECT_EQ(kept.use_count(), 1);
  };
  engine.run(root(engine));
}

// The arguments are temporaries, and the function object is one with a capture.
TEST_F(async_engine, arguments_of_a_spawned_function_live_until_its_task_has_ended) {
  std::vector<std::string> seen;
  const auto root = [&](async::engine& on) -> task<void> {
    const auto kept = std::make_shared<int>(1);
    async::scope running;
    const auto note = [&](const std::string& text, async::engine& with) -> task<int> {
      for (int i = 0; i < 3; ++i) co_await with.yield();
      seen.push_back(text);
      co_return 1;
    };
    for (int i = 0; i < 3; ++i)
      running.spawn(note, "a text that is not stored in the string itself: " + std::to_string(i),
                    std::ref(on));
    running.spawn([&on, &seen, kept]() -> task<void> {
      co_await on.yield();
      seen.push_back(std::to_string(*kept));
    });
    EXPECT_EQ(running.running(), 4U);
    EXPECT_EQ(kept.use_count(), 2);
    co_await running.join();
    EXPECT_EQ(kept.use_count(), 1);
  };
  engine.run(root(engine));
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[0], "1");
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(seen[i + 1], "a text that is not stored in the string itself: " + std::to_string(i));
}

TEST_F(async_engine, exception_of_a_spawned_function_is_thrown_by_join) {
  const auto root = []() -> task<void> {
    async::scope running;
    running.spawn(
        [](int value) -> task<void> {
          if (value == 3) throw std::runtime_error("3");
          co_return;
        },
        3);
    co_await running.join();
  };
  EXPECT_THROW(engine.run(root()), std::runtime_error);
}

/// Four elements; the iterator throws when it reaches the third one.
struct failing_range {
  struct iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    using pointer = int*;
    using reference = int&;
    int* at;
    const int* fails_at;
    int& operator*() const { return *at; }
    iterator& operator++() {
      if (++at == fails_at) throw std::runtime_error("no third element");
      return *this;
    }
    bool operator==(const iterator& other) const { return at == other.at; }
  };
  // when_all() first determines the number of elements, which does not fail.
  [[nodiscard]] iterator begin() {
    return {elements.data(), begins++ == 0 ? nullptr : &elements.at(2)};
  }
  [[nodiscard]] iterator end() { return {elements.data() + elements.size(), nullptr}; }
  std::array<int, 4> elements{0, 1, 2, 3};
  int begins = 0;
};

TEST_F(async_engine, when_all_waits_for_the_started_tasks_if_it_cannot_start_the_others) {
  int ended = 0;
  const auto root = [&](async::engine& on) -> task<void> {
    failing_range elements;
    static_cast<void>(co_await async::when_all(elements, [&](int, std::size_t) -> task<int> {
      co_await on.yield();
      co_return ++ended;
    }));
  };
  EXPECT_THROW(engine.run(root(engine)), std::runtime_error);
  EXPECT_EQ(ended, 2);
}

TEST_F(async_engine, sleepers_wake_in_the_order_of_their_deadlines) {
  std::vector<int> order;
  const auto root = [&](async::engine& on) -> task<void> {
    const auto wait = [&](int ms) -> task<void> {
      co_await on.wait_until(deadline::after(std::chrono::milliseconds(ms)));
      order.push_back(ms);
    };
    async::scope running;
    for (const int ms : {30, 10, 20, 0}) running.spawn(wait(ms));
    co_await running.join();
  };
  engine.run(root(engine));
  EXPECT_EQ(order, (std::vector<int>{0, 10, 20, 30}));
}

TEST_F(async_engine, coroutine_of_another_thread_continues_on_the_thread_of_the_engine) {
  const int rounds = campaign_size(2'000, 200'000);
  const auto here = std::this_thread::get_id();
  std::atomic<int> entered = 0;
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      // The lambda has no captures: they would be destroyed before the coroutine continues.
      const auto enter = [](async::engine& to, std::thread::id expected,
                            std::atomic<int>& count) -> async::detail::started_coroutine {
        co_await to.enter();
        EXPECT_EQ(std::this_thread::get_id(), expected);
        ++count;
      };
      for (int round = 0; round < rounds; ++round) {
        enter(engine, here, entered);
        if (round % 16 == 0) std::this_thread::yield();
      }
    });
  }
  // The event loop of a program, which sleeps whenever arm() permits.
  while (entered < 3 * rounds) {
    engine.poll();
    if (entered == 3 * rounds || !engine.arm()) continue;
    pollfd readable{.fd = engine.fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&readable, 1, 20'000), 1) << "a wake-up was lost";
  }
  for (auto& each : threads) each.join();
  // The first poll after arming reads what the threads wrote last.
  const auto sleeps = [&] {
    engine.poll();
    pollfd readable{.fd = engine.fd(), .events = POLLIN, .revents = 0};
    return engine.arm() && ::poll(&readable, 1, 0) == 0;
  };
  EXPECT_TRUE(sleeps() || sleeps()) << "the descriptor stays readable";
}

class sleeping_engine : public async_pair {
 public:
  sleeping_engine() : async_pair({.operations = 4096, .spin = 0ns}) {}
};

TEST_F(sleeping_engine, no_completion_is_missed_at_any_moment) {
  const int messages = campaign_size(2'000, 100'000);
  auto other = async::engine::create(context, {.spin = 0ns}).value();
  // The peer is another engine on another thread.
  a.reset();
  auto one = pd.create_channel(engine.hub(), small_channels()).value();
  auto two = pd.create_channel(other.hub(), small_channels()).value();
  const auto ends = std::pair(one.endpoint(), two.endpoint());
  async::channel here(engine, std::move(one).handshake(ends.second).value());
  async::channel there(other, std::move(two).handshake(ends.first).value());
  // The receive is posted before the message to which the peer responds.
  const auto receive = [](async::channel& of, sink into, int& received) -> task<void> {
    EXPECT_TRUE(co_await of.receive(into));
    ++received;
  };
  const auto ask = [&](async::channel& of) -> task<void> {
    int received = 0;
    for (int i = 0; i < messages; ++i) {
      async::scope running;
      running.spawn(receive(of, sink(memory, 64, 8), received));
      EXPECT_TRUE(co_await of.send(source(memory, 0, 8)));
      co_await running.join();
      EXPECT_EQ(received, i + 1);
    }
  };
  const auto respond = [&](async::channel& of) -> task<void> {
    int received = 0;
    async::scope running;
    running.spawn(receive(of, sink(memory, 1088, 8), received));
    for (int i = 0; i < messages; ++i) {
      co_await running.join();
      EXPECT_EQ(received, i + 1);
      if (i + 1 < messages) running.spawn(receive(of, sink(memory, 1088, 8), received));
      EXPECT_TRUE(co_await of.send(source(memory, 1024, 8)));
    }
  };
  std::thread peer([&] { other.run(respond(there)); });
  engine.run(ask(here));
  peer.join();
}

TEST_F(sleeping_engine, idle_channels_cost_no_processor_time) {
  std::vector<async::channel> idle;
  for (int i = 0; i < 100; ++i) {
    auto [one, other] = connect();
    idle.emplace_back(engine, std::move(one));
    idle.emplace_back(engine, std::move(other));
  }
  const auto used = [] {
    rusage of{};
    getrusage(RUSAGE_SELF, &of);
    return of.ru_utime.tv_sec * 1'000'000L + of.ru_utime.tv_usec + of.ru_stime.tv_sec * 1'000'000L +
           of.ru_stime.tv_usec;
  };
  const auto wait = [](async::engine& on) -> task<void> {
    co_await on.wait_until(deadline::after(500ms));
  };
  engine.run(wait(engine));
  const long before = used();
  engine.run(wait(engine));
  EXPECT_LT(used() - before, 50'000) << "µs of processor time in 500 ms";
}

TEST_F(sleeping_engine, loop_of_the_program_waits_for_the_descriptor) {
  const unique_fd loop(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event wanted{.events = EPOLLIN, .data = {.u64 = 0}};
  ASSERT_EQ(::epoll_ctl(loop.get(), EPOLL_CTL_ADD, engine.fd(), &wanted), 0);
  int received = 0;
  const auto receive = [&]() -> async::detail::started_coroutine {
    for (; received < 100; ++received) {
      EXPECT_TRUE(co_await b->receive(next_sink()));
    }
  };
  const auto send = [&]() -> async::detail::started_coroutine {
    for (int i = 0; i < 100; ++i) {
      co_await engine.wait_until(deadline::after(100us));
      EXPECT_TRUE(co_await a->send(source(memory, 0, 8)));
    }
  };
  receive();
  send();
  while (received < 100) {
    engine.poll();
    if (received == 100 || !engine.arm()) continue;
    epoll_event event{};
    const int timeout = engine.next_deadline().poll_timeout_ms();
    ASSERT_GE(::epoll_wait(loop.get(), &event, 1, timeout < 0 ? 20'000 : timeout), 0);
  }
  // The last send may still be in flight.
  while (a->get().in_flight() != 0) engine.poll();
}

/// Lets polls of completion queues fail.
class failing_polls {
 public:
  explicit failing_polls(const context& of) : native_(of.native()), before_(native_->ops) {
    native_->ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return -EIO; };
  }
  failing_polls(const failing_polls&) = delete;
  failing_polls& operator=(const failing_polls&) = delete;
  ~failing_polls() { native_->ops = before_; }

 private:
  ibv_context* native_;
  ibv_context_ops before_;
};

bool is_readable(int fd) {
  pollfd of{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&of, 1, 0) == 1;
}

TEST_F(sleeping_engine, failed_engine_ends_its_operations_and_sleeps) {
  int lost = 0;
  const auto receive = [&](async::channel& on) -> task<void> {
    const auto done = co_await on.receive(next_sink());
    EXPECT_EQ(done.end(), operation_end::lost);
    EXPECT_EQ(done.code(), EIO);
    ++lost;
  };
  async::scope running;
  running.spawn(receive(*b));
  engine.poll();
  ASSERT_TRUE(engine.arm());
  // The completion makes the completion channel readable; its event is never read.
  auto [one, other] = connect();
  const auto pool = buffer_pool::create(pd, {}).value();
  const auto write = one.post_write(pool.take(8).value(), memory.remote(), {.length = 8});
  const auto until = deadline::after(20s);
  while (!is_readable(engine.fd()) && !until.expired()) std::this_thread::yield();
  ASSERT_TRUE(is_readable(engine.fd()));
  {
    const failing_polls fault(context);
    while (lost == 0) engine.poll();
    ASSERT_NE(engine.failure(), nullptr);
    EXPECT_EQ(engine.failure()->code(), EIO);
    engine.poll();
    EXPECT_TRUE(engine.arm());
    EXPECT_FALSE(is_readable(engine.fd()));
  }
  // The failure is permanent, and operations of channels that are connected later are lost.
  auto [late, peer] = connect();
  async::channel after(engine, std::move(late));
  running.spawn(receive(after));
  EXPECT_FALSE(engine.arm()) << "an operation was posted since the last poll";
  engine.poll();
  EXPECT_EQ(lost, 2);
  // Timers and other threads still work, without polling in vain.
  const auto wait = [](async::engine& on) -> task<void> {
    co_await on.wait_until(deadline::after(20ms));
  };
  engine.run(wait(engine));
  engine.wake();
  EXPECT_FALSE(engine.arm());
  engine.poll();
  engine.poll();
  EXPECT_TRUE(engine.arm());
  EXPECT_FALSE(is_readable(engine.fd()));
}

TEST_F(sleeping_engine, failure_of_the_completion_channel_ends_operations) {
  int lost = 0;
  const auto receive = [&](async::channel& on) -> task<void> {
    const auto done = co_await on.receive(next_sink());
    EXPECT_EQ(done.end(), operation_end::lost);
    EXPECT_EQ(done.code(), ENODEV);
    ++lost;
  };
  const auto root = [&]() -> task<void> { co_await receive(*b); };
  ibv_context* const native = context.native();
  const ibv_context_ops before = native->ops;
  native->ops.req_notify_cq = [](ibv_cq*, int) { return ENODEV; };
  engine.run(root());
  native->ops = before;
  EXPECT_EQ(lost, 1);
  ASSERT_NE(engine.failure(), nullptr);
  EXPECT_EQ(engine.failure()->code(), ENODEV);
  engine.poll();  // takes the wake of the task that has ended
  engine.poll();
  EXPECT_TRUE(engine.arm());
}

// The caller checks its condition before poll(), which may take a later wake.
TEST_F(sleeping_engine, does_not_sleep_after_a_poll_that_took_a_wake) {
  engine.wake();
  EXPECT_EQ(engine.poll(), 0U);
  EXPECT_FALSE(engine.arm());
  engine.wake();
  EXPECT_EQ(engine.poll(), 0U);
  EXPECT_FALSE(engine.arm());
  engine.poll();
  ASSERT_TRUE(engine.arm());
  EXPECT_FALSE(is_readable(engine.fd()));
  engine.wake();
  EXPECT_TRUE(is_readable(engine.fd()));
}

TEST_F(async_engine, poll_counts_a_timer_that_resumes_a_coroutine) {
  bool has_resumed = false;
  const auto wait = [&]() -> async::detail::started_coroutine {
    co_await engine.wait_until(deadline::after(1ms));
    has_resumed = true;
  };
  wait();
  std::size_t resumed = 0;
  while (!has_resumed) resumed += engine.poll();
  // poll() must count the expired timer: a loop that sleeps when poll() returns 0 would otherwise
  // not continue.
  EXPECT_EQ(resumed, 1U);
}

#ifdef VERBENA_CHECKED
TEST_F(async_engine, two_threads_that_poll_at_once_stop_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto poll = [this] {
    const auto until = deadline::after(20s);
    while (!until.expired()) engine.poll();
  };
  EXPECT_DEATH(
      {
        const std::jthread other(poll);
        poll();
      },
      "two threads used an async::engine at once");
}
#endif

}  // namespace
}  // namespace verbena::test
