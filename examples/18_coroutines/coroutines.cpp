// SPDX-License-Identifier: MIT
// An echo server with coroutines: one thread serves 100 clients, each with a message channel, and
// sleeps while none of them sends. The clients run on a second thread.
#include <verbena/async.hpp>
#include <verbena/verbena.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
namespace async = verbena::async;

constexpr std::uint32_t client_count = 100;
constexpr std::uint64_t messages_per_client = 20;
constexpr auto limit = 60s;  // of each wait: all clients connect at once
constexpr verbena::message_channel_options small{.message_bytes = 256,
                                                 .queues = {.max_send_wr = 4, .max_recv_wr = 4}};

// [echo]
// Returns each message to its sender, until an empty message or a failure of the channel.
async::task<std::uint64_t> echo(async::message_channel channel) {
  std::uint64_t count = 0;
  while (const auto message = co_await channel.receive()) {
    if (message->length() == 0) break;
    if (!co_await channel.send(message->bytes())) break;
    ++count;
  }
  co_return count;
}
// [/echo]

// [serve]
// Accepts `count` clients and serves them concurrently. Returns the number of messages.
async::task<std::uint64_t> serve(async::message_listener listener, std::uint32_t count) {
  std::uint64_t sum = 0;
  const auto serve_one = [&](async::message_channel channel) -> async::task<void> {
    sum += co_await echo(std::move(channel));
  };
  async::scope clients;
  while (count-- > 0) {
    auto client = co_await listener.accept(verbena::deadline::after(limit));
    if (!client) break;
    clients.spawn(serve_one(*std::move(client)));
  }
  co_await clients.join();
  co_return sum;
}
// [/serve]

// [client]
// Connects, sends numbers and receives them, then an empty message. Returns the number of correct
// answers.
async::task<std::uint64_t> ask(async::engine& engine, const verbena::protection_domain& pd,
                               std::string_view server) {
  auto connected = co_await async::connect(engine, pd, server, verbena::deadline::after(limit),
                                           {.channel = small});
  if (!connected) co_return 0;
  async::message_channel channel = *std::move(connected);
  std::uint64_t correct = 0;
  for (std::uint64_t number = 0; number < messages_per_client; ++number) {
    const auto sent = co_await channel.send(std::as_bytes(std::span(&number, 1)));
    if (!sent) break;
    const auto answer = co_await channel.receive(verbena::deadline::after(limit));
    if (!answer) break;
    correct += std::memcmp(answer->bytes().data(), &number, sizeof number) == 0 ? 1 : 0;
    co_await engine.wait_until(verbena::deadline::after(1ms));
  }
  const auto ended = co_await channel.send(std::span<const std::byte>());
  if (ended) static_cast<void>(co_await channel.drain(verbena::deadline::after(limit)));
  co_return correct;
}
// [/client]

async::task<std::uint64_t> ask_all(async::engine& engine, const verbena::protection_domain& pd,
                                   std::string server) {
  std::vector<std::uint32_t> clients(client_count);
  const auto answers = co_await async::when_all(
      clients, [&](std::uint32_t, std::size_t) { return ask(engine, pd, server); });
  std::uint64_t sum = 0;
  for (const std::uint64_t each : answers) sum += each;
  co_return sum;
}

}  // namespace

int main() {
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  // [engine]
  // Each channel reserves a place of the engine for each request that it can have in flight.
  const std::uint32_t places = client_count * (4 + 4 + verbena::message_channel::own_operations);
  auto engine = async::engine::create(context, {.operations = places}).value();
  // [/engine]
  // [listen]
  auto listener = async::listen(engine, pd, {.host = "127.0.0.1", .port = 0},
                                {.channels = small, .negotiation_timeout = limit})
                      .value();
  // [/listen]
  const std::string server = "127.0.0.1:" + std::to_string(listener.port());

  std::uint64_t correct = 0;
  std::thread client_thread([&] {
    auto client_engine = async::engine::create(context, {.operations = places}).value();
    correct = client_engine.run(ask_all(client_engine, pd, server));
  });
  // [run]
  const std::uint64_t echoed = engine.run(serve(std::move(listener), client_count));
  // [/run]
  client_thread.join();
  std::printf("%u clients on one thread: %llu messages returned, %llu correct answers\n",
              client_count, static_cast<unsigned long long>(echoed),
              static_cast<unsigned long long>(correct));
  return correct == client_count * messages_per_client ? 0 : 1;
}
