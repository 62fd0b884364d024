// SPDX-License-Identifier: MIT
// Awaited operations of channels: data, order, back-pressure, limits, and the end of the
// connection.
#include "verbena/async/channel.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/async/async_pair.hpp"
#include "tests/unit/async/owned_coroutine.hpp"
#include "tests/unit/campaign_seed.hpp"
#include "verbena/memory/buffer_pool.hpp"

namespace verbena::test {
namespace {

using async::task;

using async_channel = async_pair;

TEST_F(async_channel, operations_transfer_bytes) {
  engine.run([](async_channel& of) -> task<void> {
    of.fill(0, 64, 1);
    const auto remote = of.memory.remote();
    EXPECT_TRUE(co_await of.a->write(source(of.memory, 0, 64), remote.slice(128, 64)));
    EXPECT_TRUE(of.holds(128, 64, 1));
    const auto read = co_await of.a->read(sink(of.memory, 256, 64), remote.slice(128, 64));
    EXPECT_EQ(read.value(), 64U);
    EXPECT_TRUE(of.holds(256, 64, 1));
    std::uint64_t word = 40;
    std::memcpy(of.memory.bytes().data() + 512, &word, sizeof word);
    EXPECT_TRUE(co_await of.a->fetch_and_add(sink(of.memory, 520, 8), remote.slice(512, 8), 2));
    EXPECT_TRUE(co_await of.a->compare_and_swap(sink(of.memory, 528, 8), remote.slice(512, 8),
                                                {.expected = 42, .desired = 7}));
    std::memcpy(&word, of.memory.bytes().data() + 512, sizeof word);
    EXPECT_EQ(word, 7U);
  }(*this));
}

TEST_F(async_channel, messages_arrive_in_order_at_coroutines_that_wait) {
  engine.run([](async_channel& of) -> task<void> {
    const auto receive = [&]() -> task<void> {
      for (int i = 0; i < 100; ++i) {
        const auto done = co_await of.b->receive(sink(of.memory, 1024, 64));
        EXPECT_EQ(done.value(), 8U);
        EXPECT_TRUE(of.holds(1024, 8, i));
      }
    };
    async::scope running;
    running.spawn(receive());
    for (int i = 0; i < 100; ++i) {
      of.fill(0, 8, i);
      EXPECT_TRUE(co_await of.a->send(source(of.memory, 0, 8)));
    }
    co_await running.join();
  }(*this));
}

TEST_F(async_channel, inline_data_and_options_are_sent) {
  engine.run([](async_channel& of) -> task<void> {
    const auto receive = [&]() -> task<operation_result> {
      co_return co_await of.b->receive(sink(of.memory, 1024, 64));
    };
    std::optional<operation_result> received;
    const auto store = [&]() -> task<void> { received = co_await receive(); };
    async::scope running;
    running.spawn(store());
    const inline_data bytes(std::as_bytes(std::span("text", 4)));
    EXPECT_TRUE(co_await of.a->send(bytes, {.immediate = 7}));
    co_await running.join();
    EXPECT_EQ(received->value(), 4U);
    EXPECT_EQ(received->immediate(), 7U);
  }(*this));
}

// The queues have capacity for 4 requests.
TEST_F(async_channel, operations_wait_for_room_in_the_order_of_the_calls) {
  std::vector<int> order;
  engine.run([](async_channel& of, std::vector<int>& ended) -> task<void> {
    const auto write = [&](int number) -> task<void> {
      const auto at = static_cast<std::size_t>(number) * 8;
      of.fill(at, 8, number);
      EXPECT_TRUE(
          co_await of.a->write(source(of.memory, at, 8), of.memory.remote().slice(8192 + at, 8)));
      ended.push_back(number);
    };
    async::scope running;
    for (int i = 0; i < 200; ++i) running.spawn(write(i));
    EXPECT_EQ(running.running(), 200U);
    co_await running.join();
    for (int i = 0; i < 200; ++i)
      EXPECT_TRUE(of.holds(8192 + static_cast<std::size_t>(i) * 8, 8, i)) << i;
  }(*this, order));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(order.at(static_cast<std::size_t>(i)), i);
}

TEST_F(async_channel, when_all_returns_the_results_in_the_order_of_the_elements) {
  engine.run([](async_channel& of) -> task<void> {
    of.fill(0, 640, 9);
    std::array<std::size_t, 10> places{};
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = 64 * i;
    const auto done = co_await async::when_all(places, [&](std::size_t place, std::size_t i) {
      return of.a->write(source(of.memory, place, 8 + i),
                         of.memory.remote().slice(4096 + place, 64));
    });
    EXPECT_EQ(done.size(), places.size());
    for (const auto& each : done) EXPECT_TRUE(each) << each.error().message();
    EXPECT_TRUE(of.holds(4096 + 64 * 9, 17, 9));
  }(*this));
}

TEST_F(async_channel, refused_operations_return_at_once) {
  const auto other = context.allocate_pd().value();
  const auto foreign = other.allocate(64, access::local_write).value();
  engine.run([](async_channel& of, const memory_region& outside) -> task<void> {
    const auto refused = co_await of.a->send(source(outside));
    EXPECT_EQ(refused.refusal(), refusal::foreign_domain);
    const auto beyond =
        co_await of.a->write(source(of.memory, 0, 64), of.memory.remote().slice(0, 8));
    EXPECT_EQ(beyond.refusal(), refusal::remote_bounds);
  }(*this, foreign));
}

// The verb refuses more operations than the queues have places, while a receive is posted.
TEST_F(async_channel, operations_that_the_verb_refuses_leave_no_trace) {
  engine.run([](async_channel& of) -> task<void> {
    std::vector<int> received;
    const auto receive = [&](int number) -> task<void> {
      const auto at = 1024 + 64 * static_cast<std::size_t>(number);
      EXPECT_EQ((co_await of.b->receive(sink(of.memory, at, 64))).value(), 8U);
      EXPECT_TRUE(of.holds(at, 8, number));
      received.push_back(number);
    };
    async::scope running;
    running.spawn(receive(0));
    ibv_context_ops& ops = of.context.native()->ops;
    const ibv_context_ops before = ops;
    ops.post_send = [](ibv_qp*, ibv_send_wr* list, ibv_send_wr** refused) {
      *refused = list;
      return EIO;
    };
    ops.post_recv = [](ibv_qp*, ibv_recv_wr* list, ibv_recv_wr** refused) {
      *refused = list;
      return EIO;
    };
    for (int i = 0; i < 10; ++i) {
      const abort_at limit = i % 2 == 0 ? abort_at() : abort_at(long_deadline());
      const auto sent = co_await of.a->send(source(of.memory, 0, 8), limit);
      const auto filled = co_await of.b->receive(of.next_sink(), limit);
      for (const auto& each : {sent, filled}) {
        EXPECT_EQ(each.refusal(), refusal::verb);
        EXPECT_EQ(each.code(), EIO);
      }
    }
    ops = before;
    EXPECT_TRUE(of.engine.next_deadline().is_never());
    EXPECT_EQ(of.a->get().in_flight(), 0U);
    EXPECT_EQ(of.b->get().in_flight(), 1U);
    for (int i = 1; i < 4; ++i) running.spawn(receive(i));
    EXPECT_EQ(of.b->get().in_flight(), 4U);
    for (int i = 0; i < 4; ++i) {
      of.fill(0, 8, i);
      EXPECT_TRUE(co_await of.a->send(source(of.memory, 0, 8)));
    }
    co_await running.join();
    EXPECT_EQ(received, std::vector({0, 1, 2, 3}));
  }(*this));
}

TEST_F(async_channel, limit_ends_the_connection_and_all_its_operations) {
  engine.run([](async_channel& of) -> task<void> {
    const auto receive = [&](abort_at limit) -> task<void> {
      const auto done = co_await of.b->receive(of.next_sink(), limit);
      EXPECT_EQ(done.end(), operation_end::aborted);
    };
    async::scope running;
    running.spawn(receive(abort_at()));
    running.spawn(receive(abort_after(10ms)));
    co_await running.join();
    const auto later = co_await of.b->receive(of.next_sink());
    EXPECT_FALSE(later);
  }(*this));
}

TEST_F(async_channel, limit_of_an_operation_that_waits_for_room_leaves_the_connection) {
  engine.run([](async_channel& of) -> task<void> {
    const auto receive = [&](abort_at limit, bool expected) -> task<void> {
      const auto done = co_await of.b->receive(of.next_sink(), limit);
      EXPECT_EQ(done.has_value(), expected);
      if (!expected) {
        EXPECT_EQ(done.code(), ETIMEDOUT);
        EXPECT_EQ(done.refusal(), refusal::limit_passed);
        EXPECT_EQ(done.error().kind(), error_kind::timed_out);
      }
    };
    async::scope running;
    for (int i = 0; i < 4; ++i) running.spawn(receive(abort_at(), true));
    running.spawn(receive(abort_after(5ms), false));
    running.spawn(receive(abort_at(), true));
    co_await of.engine.wait_until(deadline::after(20ms));
    EXPECT_EQ(running.running(), 5U);
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(co_await of.a->send(source(of.memory, 0, 8)));
    }
    co_await running.join();
  }(*this));
}

TEST_F(async_channel, abort_ends_operations_in_flight_and_those_that_wait) {
  engine.run([](async_channel& of) -> task<void> {
    const auto receive = [&]() -> task<void> {
      EXPECT_FALSE(co_await of.b->receive(of.next_sink()));
    };
    async::scope running;
    for (int i = 0; i < 10; ++i) running.spawn(receive());
    of.b->abort();
    co_await running.join();
  }(*this));
}

// A coroutine that is destroyed with an operation in flight flushes the channel.
TEST_F(async_channel, destroyed_coroutine_does_not_change_the_result_of_an_abort) {
  std::optional<operation_result> first;
  engine.run([](async_channel& of, std::optional<operation_result>& ended) -> task<void> {
    const auto receive = [&]() -> task<void> { ended = co_await of.b->receive(of.next_sink()); };
    const auto dropped = [](async_channel& here) -> owned_coroutine {
      const auto done = co_await here.b->receive(here.next_sink());
      ADD_FAILURE() << done.error().message();
    };
    async::scope running;
    running.spawn(receive());
    const auto second = dropped(of);
    of.b->abort();
    second.handle.destroy();
    co_await running.join();
  }(*this, first));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->end(), operation_end::aborted);
}

// The blocking call polls while completions that were polled earlier wait to be delivered.
TEST_F(async_channel, blocking_call_in_a_coroutine_loses_no_completion) {
  auto [one, other] = connect();
  for (int round = 0; round < 20; ++round) {
    int ended = 0;
    engine.run([](async_channel& of, channel& plain, int& count) -> task<void> {
      const auto write = [&]() -> task<void> {
        EXPECT_TRUE(co_await of.a->write(source(of.memory, 0, 8), of.memory.remote().slice(64, 8)));
        ++count;
      };
      async::scope running;
      const auto first = [&]() -> task<void> {
        EXPECT_TRUE(co_await of.a->write(source(of.memory, 0, 8), of.memory.remote().slice(64, 8)));
        ++count;
        running.spawn(write());
        // lint: allow(sleep): no poll may find the completion of the new write before the next call
        std::this_thread::sleep_for(1ms);
        EXPECT_TRUE(plain.write(source(of.memory, 0, 8), of.memory.remote().slice(128, 8)));
      };
      running.spawn(first());
      running.spawn(write());
      // lint: allow(sleep): both completions must be found by one poll
      std::this_thread::sleep_for(1ms);
      co_await running.join();
    }(*this, one, ended));
    EXPECT_EQ(ended, 3);
  }
}

TEST_F(async_channel, operations_that_are_not_flushed_are_lost_after_the_limit_of_an_abort) {
  auto& timers = async::detail::state_of(engine).timers();
  const auto pass_limit = [&] { timers.expire(std::chrono::steady_clock::now() + 6s); };
  std::optional<operation_result> first;
  const auto receive = [](async_channel& of, std::optional<operation_result>& ended)
      -> async::detail::started_coroutine { ended = co_await of.b->receive(of.next_sink()); };
  ibv_context* const native = context.native();
  const ibv_context_ops before = native->ops;
  native->ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; };
  receive(*this, first);
  b->abort();
  ASSERT_NE(b->get().qp(), nullptr);
  pass_limit();
  native->ops = before;
  engine.poll();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->end(), operation_end::lost);
}

TEST_F(async_channel, operations_after_an_abort_are_refused) {
  b->abort();
  std::optional<operation_result> ended;
  const auto receive = [](async_channel& of, std::optional<operation_result>& how)
      -> async::detail::started_coroutine { how = co_await of.b->receive(of.next_sink()); };
  receive(*this, ended);
  engine.poll();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->refusal(), refusal::not_connected);
}

/// Writes `number` to its place, and appends it to `ended` afterwards.
async::detail::started_coroutine write_number(async_channel& of, int number,
                                              std::vector<int>& ended) {
  const auto at = static_cast<std::size_t>(number) * 8;
  of.fill(at, 8, number);
  EXPECT_TRUE(
      co_await of.a->write(source(of.memory, at, 8), of.memory.remote().slice(8192 + at, 8)));
  ended.push_back(number);
}

void wait_for_number(const async_channel& of, int number) {
  const auto until = deadline::after(20s);
  while (!of.holds(8192 + static_cast<std::size_t>(number) * 8, 8, number) && !until.expired())
    std::this_thread::yield();
}

// The completion of the second write is first found by the poll that resumes both coroutines.
TEST_F(async_channel, completion_that_arm_finds_is_delivered_before_newer_ones) {
  for (int round = 0; round < 20; ++round) {
    std::vector<int> ended;
    write_number(*this, 1, ended);
    const auto until = deadline::after(20s);
    while (engine.arm() && !until.expired()) std::this_thread::yield();
    write_number(*this, 2, ended);
    wait_for_number(*this, 2);
    while (ended.size() < 2 && !until.expired()) engine.poll();
    EXPECT_EQ(ended, (std::vector{1, 2}));
    fill(8192, 64, 0);
  }
}

// The call delivers the completion of the second write, and a later poll finds that of the third.
TEST_F(async_channel, completion_that_a_nested_call_finds_is_delivered_before_newer_ones) {
  for (int round = 0; round < 20; ++round) {
    std::vector<int> ended;
    const auto first = [](async_channel& of,
                          std::vector<int>& order) -> async::detail::started_coroutine {
      EXPECT_TRUE(co_await of.a->write(source(of.memory, 0, 8), of.memory.remote().slice(64, 8)));
      order.push_back(1);
      EXPECT_TRUE(of.engine.hub().progress());
      write_number(of, 3, order);
      wait_for_number(of, 3);
    };
    first(*this, ended);
    write_number(*this, 2, ended);
    wait_for_number(*this, 2);
    const auto until = deadline::after(20s);
    while (ended.size() < 3 && !until.expired()) engine.poll();
    EXPECT_EQ(ended, (std::vector{1, 2, 3}));
    fill(8192, 64, 0);
  }
}

TEST_F(async_channel, destroyed_channel_ends_its_operations_once) {
  int lost = 0;
  int refused = 0;
  engine.run([](async_channel& of, int& posted, int& waited) -> task<void> {
    const auto receive = [&]() -> task<void> {
      const auto done = co_await of.b->receive(of.next_sink());
      if (done.end() == operation_end::lost) ++posted;
      if (done.refusal() != refusal::channel_destroyed) co_return;
      ++waited;
      EXPECT_EQ(done.code(), ENOTCONN);
      EXPECT_NE(done.error().message().find("the channel was destroyed"), std::string::npos);
    };
    async::scope running;
    for (int i = 0; i < 10; ++i) running.spawn(receive());
    of.b.reset();
    co_await running.join();
  }(*this, lost, refused));
  EXPECT_EQ(lost, 4);
  EXPECT_EQ(refused, 6);
}

TEST_F(async_channel, channel_may_be_destroyed_by_a_coroutine_that_it_resumed) {
  engine.run([](async_channel& of) -> task<void> {
    const auto receive = [&]() -> task<void> {
      static_cast<void>(co_await of.b->receive(of.next_sink()));
      of.b.reset();
    };
    async::scope running;
    for (int i = 0; i < 6; ++i) running.spawn(receive());
    EXPECT_TRUE(co_await of.a->send(source(of.memory, 0, 8)));
    co_await running.join();
  }(*this));
}

/// A coroutine that can be destroyed while it waits.
struct breakable {
  struct promise_type {
    breakable get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<> handle;
};

TEST_F(async_channel, coroutine_that_is_destroyed_while_it_waits_flushes_its_operation) {
  const auto receive = [](async::channel& of, const memory_region& into) -> breakable {
    static_cast<void>(co_await of.receive(sink(into, 1024, 64)));
    ADD_FAILURE() << "resumed";
  };
  const auto waiting = receive(*b, memory);
  engine.poll();
  waiting.handle.destroy();
  EXPECT_EQ(b->get().in_flight(), 0U) << "the device no longer accesses the memory";
  engine.poll();
}

TEST_F(async_channel, coroutine_that_is_destroyed_while_it_waits_for_room_leaves_the_connection) {
  const auto receive = [](async::channel& of, sink into, std::atomic<int>& ended) -> breakable {
    EXPECT_TRUE(co_await of.receive(into));
    ++ended;
  };
  std::atomic<int> ended = 0;  // changed by coroutines that poll() resumes
  std::vector<breakable> all;
  all.reserve(7);
  for (int i = 0; i < 7; ++i) all.push_back(receive(*b, next_sink(), ended));
  all[5].handle.destroy();
  engine.run([](async_channel& of) -> task<void> {
    for (int i = 0; i < 6; ++i) {
      EXPECT_TRUE(co_await of.a->send(source(of.memory, 0, 8)));
    }
  }(*this));
  while (ended < 6) engine.poll();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != 5) all[i].handle.destroy();
}

TEST_F(async_channel,
       refused_operation_that_is_destroyed_before_it_is_resumed_leaves_the_connection) {
  const auto other = pd.context().allocate_pd().value();
  const auto foreign = other.allocate(64, all_access).value();
  const auto receive = [](async::channel& of, const memory_region& into) -> breakable {
    static_cast<void>(co_await of.receive(sink(into)));
    ADD_FAILURE() << "resumed";
  };
  std::optional<breakable> waiting;
  // The completion makes room for the waiting operation, which is then refused.
  const auto first = [&]() -> task<void> {
    EXPECT_TRUE(co_await b->receive(next_sink()));
    waiting->handle.destroy();
  };
  const auto receive_one = [&]() -> task<void> { EXPECT_TRUE(co_await b->receive(next_sink())); };
  const auto root = [&]() -> task<void> {
    async::scope running;
    running.spawn(first());
    for (int i = 0; i < 3; ++i) running.spawn(receive_one());
    waiting = receive(*b, foreign);
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(co_await a->send(source(memory, 0, 8)));
    }
    co_await running.join();
    EXPECT_EQ(b->get().failure(), nullptr);
  };
  engine.run(root());
}

TEST_F(async_channel, operation_that_is_awaited_twice_stops_the_program) {
  const auto write = [](async_channel& of) -> task<void> {
    auto refused = of.a->write(source(of.memory, 0, 64), of.memory.remote().slice(0, 8));
    static_cast<void>(co_await std::move(refused));
    static_cast<void>(co_await std::move(refused));  // NOLINT(bugprone-use-after-move)
  };
  EXPECT_DEATH(engine.run(write(*this)), "an operation was awaited twice");
}

TEST_F(async_channel, channel_of_another_hub_stops_the_program) {
  auto other = async::engine::create(context).value();
  auto one = connect().first;
  EXPECT_DEATH(
      { const async::channel wrong(other, std::move(one)); },
      "not created on the hub of its async::engine");
}

TEST_F(async_channel, engine_that_is_destroyed_before_its_channels_stops_the_program) {
  EXPECT_DEATH(
      { const auto ended = std::move(engine); }, "destroyed before its channels and listeners");
}

TEST_F(async_channel, engine_that_is_destroyed_while_a_coroutine_waits_stops_the_program) {
  const auto wait = [](const async::engine& on) -> breakable {
    co_await on.wait_until(deadline::after(60s));
  };
  auto other = async::engine::create(context).value();
  EXPECT_DEATH(
      {
        wait(other);
        const auto ended = std::move(other);
      },
      "destroyed while coroutines waited for it");
}

TEST_F(async_channel, released_channel_has_blocking_operations_again) {
  engine.run([](async_channel& of) -> task<void> {
    EXPECT_TRUE(co_await of.a->write(source(of.memory, 0, 8), of.memory.remote().slice(64, 8)));
  }(*this));
  channel blocking = std::move(*a).release();
  a.reset();
  EXPECT_TRUE(blocking.write(source(memory, 0, 8), memory.remote().slice(64, 8)));
}

// Both operations complete before the poll, which resumes the first coroutine before it delivers
// the other completion.
TEST_F(async_channel, coroutine_may_block_for_a_completion_that_was_polled_with_its_own) {
  auto [one, other] = connect();
  engine.run([](async_channel& of, channel& blocking) -> task<void> {
    auto pool = buffer_pool::create(of.pd, {}).value();
    std::optional<pending_operation> pending;
    const auto post = [&]() -> task<void> {
      pending = blocking.post_write(pool.take(64).value(), of.memory.remote().slice(64, 64),
                                    {.length = 64});
      co_return;
    };
    const auto write = [&]() -> task<void> {
      EXPECT_TRUE(co_await of.a->write(source(of.memory, 0, 8), of.memory.remote().slice(128, 8)));
      const operation_result* const done = pending->wait(deadline::after(10s));
      EXPECT_TRUE(done != nullptr && *done);
      EXPECT_TRUE(blocking.write(source(of.memory, 0, 8), of.memory.remote().slice(192, 8)));
    };
    async::scope running;
    running.spawn(write());
    running.spawn(post());
    co_await running.join();
  }(*this, one));
}

// The blocking write polls the completion of the third write before that of the second, which was
// polled with that of the first, is delivered.
TEST_F(async_channel, coroutine_may_block_while_completions_of_a_channel_are_delivered) {
  auto [blocking, peer] = connect();
  std::vector<int> order;
  const auto write = [&](int number) -> task<void> {
    EXPECT_TRUE(co_await a->write(source(memory, 0, 8), memory.remote().slice(128, 8)));
    order.push_back(number);
  };
  async::scope running;
  const auto first = [&]() -> task<void> {
    co_await write(1);
    running.spawn(write(3));
    EXPECT_TRUE(blocking.write(source(memory, 0, 8), memory.remote().slice(256, 8)));
  };
  running.spawn(first());
  running.spawn(write(2));
  const auto until = deadline::after(20s);
  while (running.running() != 0 && !until.expired()) engine.poll();
  EXPECT_EQ(running.running(), 0U);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST_F(async_channel, coroutine_may_destroy_a_channel_whose_completion_was_polled_with_its_own) {
  engine.run([](async_channel& of) -> task<void> {
    int ended = 0;
    const auto write = [&](async::channel& by) -> task<void> {
      static_cast<void>(
          co_await by.write(source(of.memory, 0, 8), of.memory.remote().slice(128, 8)));
      ++ended;
      of.a.reset();
      of.b.reset();
    };
    async::scope running;
    running.spawn(write(*of.a));
    running.spawn(write(*of.b));
    co_await running.join();
    EXPECT_EQ(ended, 2);
  }(*this));
}

TEST_F(async_channel, coroutine_may_poll_the_engine_that_resumed_it) {
  engine.run([](async_channel& of) -> task<void> {
    int ended = 0;
    const auto write = [&](bool polls) -> task<void> {
      EXPECT_TRUE(co_await of.a->write(source(of.memory, 0, 8), of.memory.remote().slice(128, 8)));
      ++ended;
      while (polls && ended < 4) of.engine.poll();
    };
    async::scope running;
    running.spawn(write(true));
    for (int i = 0; i < 3; ++i) running.spawn(write(false));
    co_await running.join();
    EXPECT_EQ(ended, 4);
  }(*this));
}

// Random operations of several coroutines, some of which end the connection or destroy a channel.
TEST_F(async_channel, each_operation_ends_once_whatever_happens_to_its_connection) {
  const int rounds = campaign_size(30, 3000);
  std::mt19937 random(campaign_seed(1));
  for (int round = 0; round < rounds; ++round) {
    if (!a || !b) {
      a.reset();
      b.reset();
      auto [one, other] = connect();
      a.emplace(engine, std::move(one));
      b.emplace(engine, std::move(other));
    }
    int begun = 0;
    int ended = 0;
    const auto operate = [&](unsigned kind, unsigned limit) -> task<void> {
      const auto until =
          limit == 0 ? abort_after(std::chrono::microseconds(random() % 2000)) : abort_after(2s);
      auto& side = kind % 2 == 0 ? a : b;
      if (!side) co_return;
      ++begun;
      switch (kind / 2 % 4) {
        case 0:
          static_cast<void>(co_await side->send(source(memory, 0, 64), until));
          break;
        case 1:
          static_cast<void>(co_await side->receive(next_sink(), until));
          break;
        case 2:
          static_cast<void>(
              co_await side->write(source(memory, 0, 64), memory.remote().slice(128, 64), until));
          break;
        default:
          static_cast<void>(co_await side->read(next_sink(), memory.remote().slice(0, 64), until));
          break;
      }
      ++ended;
    };
    engine.run([&]() -> task<void> {
      async::scope running;
      for (int i = 0; i < 40; ++i) {
        running.spawn(operate(static_cast<unsigned>(random()), random() % 64));
        if (random() % 4 == 0) co_await engine.yield();
        if (random() % 100 == 0) (random() % 2 == 0 ? a : b).reset();
        if (random() % 100 == 0 && a) a->abort();
      }
      // Sends and receives without a partner end with the connection.
      if (a) a->abort();
      if (b) b->abort();
      co_await running.join();
    }());
    EXPECT_EQ(begun, ended);
    a.reset();
    b.reset();
  }
}

}  // namespace
}  // namespace verbena::test
