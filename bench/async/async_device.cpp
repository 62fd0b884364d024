// SPDX-License-Identifier: MIT
// Measures coroutines between two processes on the software device, each on its own processor:
//   async_device ping_pong            nanoseconds of a round trip of 8 bytes; both sides spin
//   async_device echo                 processor time of both sides per round trip of 64 bytes, in
//                                     nanoseconds; both sides sleep
//   async_device tcp_echo             the same over TCP loopback with epoll
//   async_device many CONNECTIONS     round trips of 64 bytes per second, with 16 in flight; one
//                                     thread on each side
// All check the received bytes.
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/local/measure.hpp"
#include "bench/local/process_pair.hpp"
#include "verbena/async.hpp"
#include "verbena/verbena.hpp"

namespace {

namespace async = verbena::async;
using bench::fail;
using bench::process_pair;

constexpr bench::repetitions ping_pong_times{.chunks = 50, .per_chunk = 1000};
constexpr std::uint64_t echo_times = 20'000;
constexpr std::uint64_t many_times = 200'000;
constexpr std::uint64_t most_connections = 1000;
constexpr std::uint64_t in_flight = 16;
constexpr std::uint32_t window = in_flight;

using message = std::array<std::uint64_t, 8>;

/// The context, the domain and the engine of a process.
struct side {
  side(std::uint32_t operations, std::chrono::nanoseconds spin)
      : context(verbena::open_device("soft0").value()),
        pd(context.allocate_pd().value()),
        engine(async::engine::create(context, {.operations = operations, .spin = spin}).value()) {}

  verbena::context context;
  verbena::protection_domain pd;
  async::engine engine;
};

// ------------------------------------------------------------------------------ ping_pong

async::channel connect(const process_pair& pair, side& at) {
  auto prepared = at.pd.create_channel(at.engine.hub(), {}).value();
  pair.send(prepared.endpoint().encode());
  std::array<std::byte, verbena::endpoint::encoded_size> bytes{};
  pair.receive(bytes);
  return {at.engine,
          std::move(prepared).handshake(verbena::endpoint::decode(bytes).value()).value()};
}

// Two coroutines take turns, so that a receive is posted when a message arrives.
class ping_pong {
 public:
  ping_pong(const process_pair& pair, side& at)
      : pair_(pair),
        channel_(connect(pair, at)),
        memory_(at.pd.allocate(4096, verbena::access::local_write).value()),
        from_(memory_, 0, 8) {}

  /// Exchanges numbers with the other process; returns the nanoseconds of a round trip.
  async::task<double> run() {
    async::scope turns;
    turns.spawn(take_turns(64));
    turns.spawn(take_turns(128));
    pair_.meet();
    start_ = std::chrono::steady_clock::now();
    if (pair_.is_parent()) co_await send(1);
    co_await turns.join();
    std::ranges::sort(samples_);
    co_return samples_.empty() ? 0 : samples_[samples_.size() / 2];
  }

 private:
  async::task<void> send(std::uint64_t number) {
    std::memcpy(memory_.bytes().data(), &number, sizeof number);
    const auto sent = co_await channel_.send(from_);
    if (!sent) fail("a send failed");
  }
  // Receives numbers into `at`, until the last one. The child returns each of them, and the parent
  // sends the next.
  async::task<void> take_turns(std::size_t at) {
    const verbena::sink into(memory_, at, 8);
    while (true) {
      const auto received = co_await channel_.receive(into);
      if (!received) {
        if (last_ == ping_pong_times.total()) co_return;
        fail("a receive failed");
      }
      std::uint64_t number = 0;
      std::memcpy(&number, memory_.bytes().data() + at, sizeof number);
      if (number != ++last_) fail("another message than the one that was sent");
      if (pair_.is_parent() && number % ping_pong_times.per_chunk == 0) take_sample();
      const bool is_last = number == ping_pong_times.total();
      if (pair_.is_child() || !is_last) {
        if (pair_.is_parent()) ++number;
        std::memcpy(memory_.bytes().data(), &number, sizeof number);
        const auto sent = co_await channel_.send(from_);
        if (!sent) fail("a send failed");
      }
      if (!is_last) continue;
      channel_.abort();  // ends the receive of the other coroutine
      co_return;
    }
  }
  void take_sample() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::nano> took = now - std::exchange(start_, now);
    samples_.push_back(took.count() / ping_pong_times.per_chunk);
  }

  const process_pair& pair_;
  async::channel channel_;
  verbena::memory_region memory_;
  verbena::source from_;
  std::uint64_t last_ = 0;
  std::chrono::steady_clock::time_point start_;
  std::vector<double> samples_;
};

// --------------------------------------------------------------------------- message channels

std::vector<async::message_channel> connect_messages(const process_pair& pair, side& at,
                                                     std::size_t count) {
  const verbena::message_channel_options options{
      .message_bytes = sizeof(message), .queues = {.max_send_wr = window, .max_recv_wr = window}};
  std::vector<async::message_channel> out;
  for (std::size_t i = 0; i < count; ++i) {
    auto prepared = verbena::message_channel::prepare(at.pd, at.engine.hub(), options).value();
    pair.send(prepared.endpoint().encode());
    std::array<std::byte, verbena::message_endpoint::encoded_size> bytes{};
    pair.receive(bytes);
    out.emplace_back(
        at.engine,
        std::move(prepared).handshake(verbena::message_endpoint::decode(bytes).value()).value());
  }
  return out;
}

// Returns messages to the peer until an empty one arrives.
async::task<void> echo(async::message_channel& channel) {
  while (const auto received = co_await channel.receive()) {
    if (received->length() == 0) co_return;
    if (!co_await channel.send(received->bytes())) fail("a send failed");
  }
  fail("a receive failed");
}

// Exchanges `count` messages over the channels in turn. Several coroutines may share a channel:
// they receive each other's messages.
async::task<void> ask(std::span<async::message_channel*> channels, std::uint64_t count) {
  message sent{};
  for (std::uint64_t i = 0; i < count; ++i) {
    async::message_channel& channel = *channels[i % channels.size()];
    sent.fill(i + 1);
    if (!co_await channel.send(std::as_bytes(std::span(sent)))) fail("a send failed");
    const auto answer = co_await channel.receive();
    if (!answer || answer->length() != sizeof sent) fail("a receive failed");
    message received{};
    std::memcpy(received.data(), answer->bytes().data(), sizeof received);
    if (received[0] == 0 || received[0] != received[7]) fail("another message was received");
  }
}

// Tells the peer that there are no more messages.
async::task<void> finish(std::vector<async::message_channel>& channels) {
  for (async::message_channel& each : channels) {
    if (!co_await each.send(std::span<const std::byte>())) fail("a send failed");
    if (!co_await each.drain()) fail("a message was not delivered");
  }
}

async::task<void> serve(std::vector<async::message_channel>& channels) {
  async::scope clients;
  for (async::message_channel& each : channels) clients.spawn(echo(each));
  co_await clients.join();
}

// User and system time of this process.
double processor_time() {
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) != 0) fail("getrusage");
  const auto ns = [](const timeval& of) {
    return static_cast<double>(of.tv_sec) * 1e9 + static_cast<double>(of.tv_usec) * 1e3;
  };
  return ns(used.ru_utime) + ns(used.ru_stime);
}

// Returns the sum of the values of both processes, in the parent.
double sum_of_both(const process_pair& pair, double mine) {
  if (pair.is_child()) {
    pair.send(std::as_bytes(std::span(&mine, 1)));
    return mine;
  }
  double other = 0;
  pair.receive(std::as_writable_bytes(std::span(&other, 1)));
  return mine + other;
}

double echo_asleep(const process_pair& pair) {
  side mine(64, std::chrono::nanoseconds(0));
  auto channels = connect_messages(pair, mine, 1);
  std::array<async::message_channel*, 1> only{channels.data()};
  pair.meet();
  const double before = processor_time();
  if (pair.is_child()) {
    mine.engine.run(serve(channels));
  } else {
    mine.engine.run([&]() -> async::task<void> {
      co_await ask(only, echo_times);
      co_await finish(channels);
    }());
  }
  return sum_of_both(pair, processor_time() - before) / static_cast<double>(echo_times);
}

double many(const process_pair& pair, std::uint64_t connections) {
  const auto places = static_cast<std::uint32_t>(
      connections * (2 * window + verbena::message_channel::own_operations));
  side mine(places, std::chrono::milliseconds(100));
  auto channels = connect_messages(pair, mine, connections);
  pair.meet();
  const auto start = std::chrono::steady_clock::now();
  if (pair.is_child()) {
    mine.engine.run(serve(channels));
  } else {
    mine.engine.run([&]() -> async::task<void> {
      std::vector<std::vector<async::message_channel*>> shares(in_flight);
      for (std::size_t i = 0; i < std::max(connections, in_flight); ++i)
        shares[i % in_flight].push_back(&channels[i % connections]);
      async::scope asking;
      for (auto& share : shares) asking.spawn(ask(share, many_times / in_flight));
      co_await asking.join();
    }());
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (pair.is_parent()) mine.engine.run(finish(channels));
  pair.meet();
  return static_cast<double>(many_times) / spent.count();
}

// ------------------------------------------------------------------------------------- TCP

double tcp_echo(const process_pair& pair) {
  const auto socket = pair.connect_over_tcp();
  const verbena::unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event readable{.events = EPOLLIN, .data = {.fd = socket.get()}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket.get(), &readable) != 0) fail("epoll_ctl");
  message bytes{};
  const auto receive = [&] {
    epoll_event event{};
    if (::epoll_wait(epoll.get(), &event, 1, -1) != 1) fail("epoll_wait");
    if (::recv(socket.get(), bytes.data(), sizeof bytes, MSG_DONTWAIT) != sizeof bytes)
      fail("recv");
  };
  const auto send = [&] {
    if (::send(socket.get(), bytes.data(), sizeof bytes, MSG_NOSIGNAL) != sizeof bytes)
      fail("send");
  };
  pair.meet();
  const double before = processor_time();
  for (std::uint64_t i = 0; i < echo_times; ++i) {
    if (pair.is_child()) {
      receive();
      send();
    } else {
      bytes.fill(i + 1);
      send();
      receive();
      if (bytes[7] != i + 1) fail("another message was received");
    }
  }
  return sum_of_both(pair, processor_time() - before) / static_cast<double>(echo_times);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view mode = argc >= 2 ? argv[1] : "";
  const std::uint64_t count = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const bool is_many = mode == "many" && count >= 1 && count <= most_connections;
  if (!is_many && (argc != 2 || (mode != "ping_pong" && mode != "echo" && mode != "tcp_echo")))
    fail("usage: async_device ping_pong | echo | tcp_echo | many CONNECTIONS (1 to 1000)");
  const process_pair pair = process_pair::start();
  double value = 0;
  if (mode == "ping_pong") {
    side mine(256, std::chrono::seconds(1));
    ping_pong both(pair, mine);
    value = mine.engine.run(both.run());
    pair.meet();
  } else if (mode == "echo") {
    value = echo_asleep(pair);
  } else if (mode == "tcp_echo") {
    value = tcp_echo(pair);
  } else {
    value = many(pair, count);
  }
  if (pair.is_parent()) std::printf("%.1f\n", value);
  std::fflush(stdout);
  return pair.finish();
} catch (const std::exception& problem) {
  fail(problem.what());
}
