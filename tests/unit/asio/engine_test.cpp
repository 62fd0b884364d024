// SPDX-License-Identifier: MIT
// The engine in an io_context: allocators, work, sleep, exceptions, strands, and ends of contexts,
// engines and channels.
#include "verbena/asio/engine.hpp"

#include <sys/resource.h>

#include <array>
#include <asio/bind_allocator.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <asio/recycling_allocator.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/allocations.hpp"
#include "tests/unit/asio/asio_pair.hpp"
#include "tests/unit/asio/counting_allocator.hpp"
#include "tests/unit/campaign_seed.hpp"

namespace verbena::test {
namespace {

using asio_engine = asio_pair;

TEST_F(asio_engine, operation_is_one_block_of_the_allocator_of_its_handler) {
  counting_allocator<void>::counters count;
  int called = 0;
  const auto check = [&](std::error_code code, const auto&...) {
    EXPECT_FALSE(code);
    EXPECT_EQ(count.live, 0) << "freed before the handler is called";
    ++called;
  };
  const auto handler = [&] { return net::bind_allocator(counting_allocator<void>(count), check); };
  a->async_write(from(), remote(), handler());
  EXPECT_EQ(count.live, 1);
  run();
  server->async_receive(handler());
  client->async_send(some_bytes, net::detached);
  run();
  client->async_drain(handler());
  run();
  EXPECT_EQ(called, 3);
  EXPECT_EQ(count.made, 3);
}

/// Writes until `left` is 0.
template <class Token>
struct write_again {
  asio_pair& of;
  int& left;
  Token token;
  void operator()(std::error_code code, const operation_result& /*done*/) const {
    EXPECT_FALSE(code);
    if (--left > 0) of.a->async_write(of.from(), of.remote(), token(*this));
  }
};

template <class Token>
void write_many(asio_pair& of, int count, Token token) {
  const write_again<Token> first{of, count, token};
  of.a->async_write(of.from(), of.remote(), token(first));
  of.run();
  EXPECT_EQ(count, 0);
}

/// A handler whose alignment exceeds that of operator new.
struct alignas(1024) aligned_handler {
  explicit aligned_handler(int& calls) noexcept : count(calls) { check(); }
  aligned_handler(const aligned_handler& other) noexcept : count(other.count) { check(); }
  aligned_handler& operator=(const aligned_handler&) = delete;
  ~aligned_handler() = default;
  void operator()(std::error_code code, const operation_result& /*done*/) const {
    EXPECT_FALSE(code);
    ++count;
  }
  void check() const noexcept {
    const volatile auto at = reinterpret_cast<std::uintptr_t>(this);
    EXPECT_EQ(at % alignof(aligned_handler), 0U);
  }
  int& count;
};

TEST_F(asio_engine, memory_of_operations_has_the_alignment_of_their_handlers) {
  int count = 0;
  for (int i = 0; i < 3; ++i) a->async_write(from(), remote(), aligned_handler(count));
  run();
  EXPECT_EQ(count, 3);
}

#ifdef VERBENA_COUNTS_ALLOCATIONS
TEST_F(asio_engine, operations_do_not_allocate_if_blocks_are_reused) {
  const auto plain = [](const auto& handler) { return handler; };
  const auto recycling = [](const auto& handler) {
    return net::bind_allocator(net::recycling_allocator<void>(), handler);
  };
  const auto with_executor = [this](const auto& handler) {
    return net::bind_executor(io->get_executor(), handler);
  };
  auto [blocking, peer] = connect();
  const auto write_blocking = [&](int count) {
    for (; count > 0; --count) EXPECT_TRUE(blocking.write(from(), remote()));
  };
  write_blocking(10);
  write_many(*this, 10, plain);
  write_many(*this, 10, recycling);
  write_many(*this, 10, with_executor);
  const std::size_t at_first = allocations;
  write_blocking(2000);
  const std::size_t of_device = allocations - at_first;  // the checker of checked builds allocates
  write_many(*this, 1000, plain);
  write_many(*this, 1000, recycling);
  // Asio allocates a few blocks when a thread begins to run a context.
  EXPECT_LE(allocations - at_first, 2 * of_device + 10);
}
#endif

TEST_F(asio_engine, context_runs_out_of_work_when_no_operation_is_pending) {
  run();
  net::steady_timer later(*io, 5ms);
  bool is_received = false;
  server->async_receive([&](std::error_code, const receive_result&) { is_received = true; });
  later.async_wait([&](std::error_code) { client->async_send(some_bytes, net::detached); });
  run();
  EXPECT_TRUE(is_received);
}

TEST_F(asio_engine, handlers_begin_operations_until_all_messages_are_sent) {
  constexpr std::uint64_t count = 1000;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::function<void()> send;
  std::function<void()> receive;
  send = [&] {
    client->async_send(bytes_of(sent), [&](std::error_code code, send_result) {
      EXPECT_FALSE(code);
      if (++sent < count) send();
    });
  };
  receive = [&] {
    server->async_receive([&](std::error_code code, const receive_result& message) {
      EXPECT_FALSE(code);
      EXPECT_EQ(number_in(message), received);
      if (++received < count) receive();
    });
  };
  send();
  receive();
  run();
  EXPECT_EQ(sent, count);
  EXPECT_EQ(received, count);
}

// The first message is there when its operation begins, so the operation ends at once.
TEST_F(asio_engine, handlers_of_messages_are_called_in_the_order_of_their_operations) {
  std::vector<std::uint64_t> order;
  const auto note = [&](std::error_code code, const receive_result& message) {
    EXPECT_FALSE(code) << code.message();
    order.push_back(number_in(message));
  };
  const auto until = deadline::after(20s);
  const auto send = [&](const std::uint64_t& number) {
    while (!client->get().try_send(bytes_of(number))) ASSERT_FALSE(until.expired());
  };
  send(1);
  while (!server->get().has_message()) {
    static_cast<void>(engine.hub().progress());
    ASSERT_FALSE(until.expired());
  }
  server->async_receive(note);
  server->async_receive(note);
  send(2);
  run();
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(asio_engine, all_operations_of_a_channel_transfer_data) {
  const auto words = memory.bytes().data();
  std::memset(words, 3, 64);
  const std::uint64_t first = 40;
  std::memcpy(words + 8192, &first, sizeof first);
  int called = 0;
  const auto ends = [&](std::error_code code, const operation_result&) {
    EXPECT_FALSE(code) << code.message();
    ++called;
  };
  const sink before(memory, 4096, 8);
  const sink before_next(memory, 4104, 8);
  const auto word = memory.remote().slice(8192, 8);
  a->async_fetch_and_add(before, word, 2, ends);
  a->async_compare_and_swap(before_next, word, {.expected = 42, .desired = 7}, ends);
  run();
  std::uint64_t now = 0;
  std::memcpy(&now, words + 8192, sizeof now);
  EXPECT_EQ(now, 7U);
  const std::array sources{source(memory, 0, 16), source(memory, 16, 16)};
  a->async_write(sources, remote(), {}, ends);
  run();
  EXPECT_EQ(words[8192 + 31], std::byte{3});
  a->async_read(into(), remote(), ends);
  const std::array sinks{into(1), into(2)};
  const std::array receives{into(3), into(4)};
  a->async_read(std::span(sinks), memory.remote().slice(8192, 128), ends);
  b->async_receive(std::span(receives), [&](std::error_code code, const operation_result& done) {
    EXPECT_FALSE(code);
    EXPECT_EQ(done.value(), 4U);
    EXPECT_EQ(done.immediate(), 7U);
    ++called;
  });
  a->async_send(inline_data(std::as_bytes(std::span("text", 4))), {.immediate = 7}, ends);
  run();
  EXPECT_EQ(called, 7);
  EXPECT_EQ(words[4096], std::byte{3});
  EXPECT_EQ(std::memcmp(words + 4096 + 3 * 64, "text", 4), 0);
}

TEST_F(asio_engine, deadline_of_an_operation_ends_it_while_the_context_sleeps) {
  std::error_code code;
  server->async_receive(deadline::after(10ms),
                        [&](std::error_code ended, const receive_result&) { code = ended; });
  run();
  EXPECT_EQ(code, net::error::timed_out);
  // A later operation with an earlier deadline.
  std::string order;
  server->async_receive(deadline::after(40ms),
                        [&](std::error_code, const receive_result&) { order += 'b'; });
  net::post(*io, [&] {
    server->async_receive(deadline::after(5ms),
                          [&](std::error_code, const receive_result&) { order += 'a'; });
  });
  run();
  EXPECT_EQ(order, "ab");
  b->async_receive(into(), abort_after(5ms),
                   [&](std::error_code ended, const operation_result&) { code = ended; });
  run();
  EXPECT_EQ(code, net::error::operation_aborted);
}

class asio_sleeping_engine : public asio_pair {
 public:
  asio_sleeping_engine() : asio_pair({.spin = {}}) {}
};

// The handler of the first deadline is already due when the loop begins to wait for the second one.
TEST_F(asio_sleeping_engine, deadline_that_is_replaced_late_does_not_delay_the_end_of_run) {
  net::cancellation_signal signal;
  const deadline first = deadline::after(200ms);
  server->async_receive(first, net::bind_cancellation_slot(signal.slot(), [](const auto&...) {}));
  b->async_receive(into(), abort_after(1h), net::detached);
  io->restart();
  io->poll();
  signal.emit(net::cancellation_type::terminal);
  io->poll_one();  // calls the handler of the message channel
  while (!first.expired()) std::this_thread::yield();
  io->poll_one();  // waits for the second deadline
  b.reset();
  run();
}

TEST_F(asio_engine, exception_of_a_handler_leaves_run_and_other_handlers_are_called_later) {
  int called = 0;
  for (int i = 0; i < 4; ++i)
    a->async_write(from(), remote(), [&, i](std::error_code, const operation_result&) {
      ++called;
      if (i == 1) throw std::runtime_error("a handler threw");
    });
  io->restart();
  EXPECT_THROW(io->run_for(20s), std::runtime_error);
  run();
  EXPECT_EQ(called, 4);
}

TEST_F(asio_engine, idle_context_uses_little_processor_time) {
  const auto used = [] {
    rusage of{};
    getrusage(RUSAGE_SELF, &of);
    return of.ru_utime.tv_sec * 1'000'000L + of.ru_utime.tv_usec + of.ru_stime.tv_sec * 1'000'000L +
           of.ru_stime.tv_usec;
  };
  server->async_receive(deadline::after(500ms), net::detached);
  const long before = used();
  run();
  EXPECT_LT(used() - before, 50'000) << "µs of processor time in 500 ms";
}

TEST_F(asio_engine, strand_permits_a_context_with_several_threads) {
  const auto strand = net::make_strand(*io);
  auto shared = asio::engine::create(context, strand).value();
  auto one = message_channel::prepare(pd, shared.hub(), tiny(4)).value();
  auto other = message_channel::prepare(pd, shared.hub(), tiny(4)).value();
  const auto ends = std::pair(one.endpoint(), other.endpoint());
  asio::message_channel left(shared, std::move(one).handshake(ends.second).value());
  asio::message_channel right(shared, std::move(other).handshake(ends.first).value());
  constexpr std::uint64_t count = 500;
  std::uint64_t received = 0;  // on the strand
  std::atomic<int> others = 0;
  net::co_spawn(
      strand,
      [&]() -> net::awaitable<void> {
        for (std::uint64_t i = 0; i < count; ++i)
          (co_await left.async_send(bytes_of(i), net::use_awaitable)).value();
      },
      net::detached);
  net::co_spawn(
      strand,
      [&]() -> net::awaitable<void> {
        for (; received < count; ++received) {
          EXPECT_EQ(number_in(co_await right.async_receive(net::use_awaitable)), received);
          EXPECT_TRUE(strand.running_in_this_thread());
        }
      },
      net::detached);
  for (int i = 0; i < 100; ++i) net::post(*io, [&] { ++others; });
  std::vector<std::thread> threads(3);
  for (auto& each : threads) each = std::thread([this] { io->run_for(20s); });
  for (auto& each : threads) each.join();
  EXPECT_EQ(received, count);
  EXPECT_EQ(others, 100);
}

TEST_F(asio_engine, destroyed_channel_ends_its_operations_once) {
  int ended = 0;
  const auto count = [&](std::error_code code, const auto& result) {
    EXPECT_EQ(code, net::error::operation_aborted);
    EXPECT_FALSE(result);
    ++ended;
  };
  for (std::size_t i = 0; i < 7; ++i) b->async_receive(into(i), count);
  for (int i = 0; i < 3; ++i) server->async_receive(count);
  exhaust();
  for (int i = 0; i < 3; ++i) client->async_send(some_bytes, count);
  b.reset();
  server.reset();
  client.reset();
  EXPECT_EQ(ended, 0);
  run();
  EXPECT_EQ(ended, 13);
}

TEST_F(asio_engine, handler_may_destroy_its_channel) {
  int ended = 0;
  for (std::size_t i = 0; i < 6; ++i)
    b->async_receive(into(i), [&](std::error_code, const operation_result&) {
      b.reset();
      ++ended;
    });
  a->async_send(from(), net::detached);
  run();
  EXPECT_EQ(ended, 6);
}

TEST_F(asio_engine, failure_of_the_connection_is_a_completion_status) {
  std::error_code code;
  std::error_code later;
  // A write beyond the region: the peer's device refuses it.
  const auto small = pd.allocate(64, all_access).value();
  const remote_region beyond(
      {.address = small.remote().address(), .length = 4096, .key = small.remote().key()});
  a->async_write(source(memory, 0, 4096), beyond,
                 [&](std::error_code ended, const operation_result& done) {
                   code = ended;
                   EXPECT_EQ(done.end(), operation_end::failed);
                 });
  run();
  EXPECT_EQ(code, make_error_code(completion_status::remote_access_error)) << code.message();
  server->get().flush();
  server->async_receive([&](std::error_code ended, const receive_result& none) {
    later = ended;
    EXPECT_NE(none.error().message().find("flush"), std::string::npos);
  });
  run();
  EXPECT_EQ(later, net::error::shut_down);
}

/// A handler of which all copies are counted, and which must not be called.
struct not_called {
  std::shared_ptr<int> counted;
  template <class... Results>
  void operator()(std::error_code /*code*/, const Results&... /*result*/) const {
    ADD_FAILURE() << "a handler was called";
  }
};

TEST_F(asio_engine, destroyed_context_destroys_handlers_in_each_state_without_calling_them) {
  const auto counted = std::make_shared<int>();
  net::cancellation_signal signal;
  for (std::size_t i = 0; i < 6; ++i) b->async_receive(into(i), not_called{counted});
  for (int i = 0; i < 3; ++i) server->async_receive(not_called{counted});
  server->async_receive(net::bind_cancellation_slot(signal.slot(), not_called{counted}));
  server->async_receive(net::bind_executor(net::make_strand(*io), not_called{counted}));
  io->poll();
  exhaust();
  for (int i = 0; i < 3; ++i) client->async_send(some_bytes, not_called{counted});
  a->async_write(from(), remote(), not_called{counted});  // has completed, but was not polled
  const auto other = context.allocate_pd().value();
  const auto foreign = other.allocate(64, access::local_write).value();
  a->async_send(source(foreign), not_called{counted});  // was refused
  EXPECT_GT(counted.use_count(), 15);
  io.reset();
  EXPECT_EQ(counted.use_count(), 1);
  EXPECT_EQ(b->get().in_flight(), 0U) << "the device no longer accesses the memory";
  signal.emit(net::cancellation_type::total);
  // Objects of the engine may be destroyed later; operations have no effect.
  a->async_write(from(), remote(), not_called{counted});
  server->async_receive(not_called{counted});
  EXPECT_EQ(counted.use_count(), 1);
}

TEST_F(asio_engine, destroyed_context_destroys_sessions_that_handlers_own) {
  struct session {
    session(asio::engine& on, message_channel&& connected, int& all)
        : channel(on, std::move(connected)), count(all) {
      ++count;
    }
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    ~session() { --count; }
    asio::message_channel channel;
    int& count;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): of the test
  };
  int sessions = 0;
  for (int i = 0; i < 10; ++i) {
    auto [here, there] = connect_messages();
    for (auto* each : {&here, &there}) {
      const auto owner = std::make_shared<session>(engine, std::move(*each), sessions);
      for (int k = 0; k < 3; ++k)
        owner->channel.async_receive(
            [owner](std::error_code, const receive_result&) { ADD_FAILURE(); });
    }
  }
  io->poll();
  EXPECT_EQ(sessions, 20);
  io.reset();
  EXPECT_EQ(sessions, 0);
}

TEST_F(asio_engine, engine_may_be_destroyed_before_its_operations_end) {
  int ended = 0;
  {
    auto brief = asio::engine::create(context, *io).value();
    auto one = message_channel::prepare(pd, brief.hub(), tiny(4)).value();
    const auto self = one.endpoint();
    asio::message_channel own(brief, std::move(one).handshake(self).value());
    own.async_receive([&](std::error_code code, const receive_result&) {
      EXPECT_EQ(code, net::error::operation_aborted);
      ++ended;
    });
  }
  run();
  EXPECT_EQ(ended, 1);
}

/// Returns each message to its sender.
struct echo_session : std::enable_shared_from_this<echo_session> {
  struct counters {
    int live = 0;
    int busy = 0;  // sessions that have returned 3 messages
  };
  echo_session(asio::engine& on, message_channel&& connected, counters& of)
      : channel(on, std::move(connected)), count(of) {
    ++count.live;
  }
  echo_session(const echo_session&) = delete;
  echo_session& operator=(const echo_session&) = delete;
  ~echo_session() { --count.live; }
  void receive() {
    channel.async_receive(
        [self = shared_from_this()](std::error_code code, receive_result message) {
          if (!code) self->send(std::move(*message));
        });
  }
  void send(received_message message) {
    if (++echoed == 3) ++count.busy;
    const buffer_slice all{.length = message.length()};
    channel.async_send(std::move(message).take_buffer(), all,
                       [self = shared_from_this()](std::error_code code, send_result) {
                         if (!code) self->receive();
                       });
  }
  asio::message_channel channel;
  counters& count;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): of the test
  int echoed = 0;
};

TEST(asio_clients, destroyed_context_with_1000_clients_in_flight_leaks_nothing) {
  const auto context = open_tested();
  if (is_iwarp(context)) GTEST_SKIP() << "iWARP connects by the connection manager";
  constexpr int clients = 1000;
  const message_channel_options options{.message_bytes = 64,
                                        .queues = {.max_send_wr = 2, .max_recv_wr = 2}};
  const auto pd = context.allocate_pd().value();
  auto io = std::make_optional<net::io_context>();
  auto engine =
      asio::engine::create(context, *io,
                           {.operations = 2 * clients * (2 + 2 + message_channel::own_operations)})
          .value();
  echo_session::counters count;
  for (int i = 0; i < clients; ++i) {
    auto one = message_channel::prepare(pd, engine.hub(), options).value();
    auto other = message_channel::prepare(pd, engine.hub(), options).value();
    const auto ends = std::pair(one.endpoint(), other.endpoint());
    const auto client = std::make_shared<echo_session>(
        engine, std::move(one).handshake(ends.second).value(), count);
    const auto server = std::make_shared<echo_session>(
        engine, std::move(other).handshake(ends.first).value(), count);
    ASSERT_TRUE(client->channel.get().try_send(std::span(asio_pair::some_bytes).first(8)));
    client->receive();
    server->receive();
  }
  EXPECT_EQ(count.live, 2 * clients);
  const auto until = deadline::after(60s);
  while (count.busy < 2 * clients && !until.expired()) io->poll_one();
  EXPECT_EQ(count.busy, 2 * clients);
  io.reset();
  EXPECT_EQ(count.live, 0);
}

/// Counts its calls.
struct called_once {
  std::shared_ptr<int> alive;
  int* called;
  bool was_called = false;
  template <class... Results>
  void operator()(std::error_code /*code*/, const Results&... /*result*/) {
    EXPECT_FALSE(std::exchange(was_called, true));
    ++*called;
  }
};

/// Random operations, each with a cancellation signal.
class asio_campaign : public asio_pair {
 public:
  /// Replaces the context, the engine and the channels.
  void begin_round() {
    io.emplace();
    engine = asio::engine::create(context, *io, {.spin = 1us * (random() % 100)}).value();
    SetUp();
    begun = called = 0;
  }
  void destroy_channels() {
    a.reset();
    b.reset();
    client.reset();
    server.reset();
  }
  [[nodiscard]] auto handler(net::cancellation_signal& signal) {
    ++begun;
    return net::bind_cancellation_slot(signal.slot(), called_once{alive, &called});
  }
  void begin_operation(net::cancellation_signal& signal) {
    const deadline until = random() % 4 == 0
                               ? deadline::after(std::chrono::microseconds(random() % 1000))
                               : deadline::after(2s);
    auto& one = random() % 2 == 0 ? a : b;
    auto& messages = random() % 2 == 0 ? client : server;
    const auto kind = random() % 6;
    if (kind < 3 ? !one : !messages) return;
    switch (kind) {
      case 0:
        return one->async_send(from(), abort_at(until), handler(signal));
      case 1:
        return one->async_receive(into(128 + next_sink++ % 700), abort_at(until), handler(signal));
      case 2:
        return one->async_write(from(), remote(), abort_at(until), handler(signal));
      case 3:
        return messages->async_receive(until, handler(signal));
      case 4:
        return messages->async_send(some_bytes, until, handler(signal));
      default:
        return messages->async_drain(until, handler(signal));
    }
  }
  void disturb(std::span<net::cancellation_signal> signals) {
    constexpr std::array types{net::cancellation_type::terminal, net::cancellation_type::total,
                               net::cancellation_type::partial};
    if (random() % 8 == 0) signals[random() % signals.size()].emit(types.at(random() % 3));
    if (random() % 64 == 0) (random() % 2 == 0 ? a : b).reset();
    if (random() % 64 == 0) (random() % 2 == 0 ? client : server).reset();
  }

  std::mt19937 random{campaign_seed(5)};
  std::size_t next_sink = 0;
  std::shared_ptr<int> alive = std::make_shared<int>();
  int begun = 0;
  int called = 0;
};

TEST_F(asio_campaign, each_handler_is_called_once_or_destroyed_whatever_happens) {
  const int rounds = campaign_size(40, 4000);
  for (int round = 0; round < rounds; ++round) {
    begin_round();
    std::array<net::cancellation_signal, 64> signals;
    for (auto& signal : signals) {
      begin_operation(signal);
      disturb(signals);
      io->restart();
      if (random() % 2 == 0) io->poll_one();
    }
    if (random() % 4 == 0) {
      io.reset();
      EXPECT_LE(called, begun);
    } else {
      // Sends and receives without a partner end with their connection.
      destroy_channels();
      run();
      EXPECT_EQ(called, begun);
    }
    EXPECT_EQ(alive.use_count(), 1);
    destroy_channels();
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace verbena::test
