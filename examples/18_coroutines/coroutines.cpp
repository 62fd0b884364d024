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
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
namespace async = verbena::async;

constexpr std::uint32_t client_count = 100;
constexpr std::uint64_t messages_per_client = 20;
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
// Serves all clients concurrently. Returns the number of messages.
async::task<std::uint64_t> serve(std::vector<async::message_channel> channels) {
  std::uint64_t sum = 0;
  const auto count = [&](async::message_channel channel) -> async::task<void> {
    sum += co_await echo(std::move(channel));
  };
  async::scope clients;
  for (auto& each : channels) clients.spawn(count(std::move(each)));
  co_await clients.join();
  co_return sum;
}
// [/serve]

// [client]
// Sends numbers and receives them, then an empty message. Returns the number of correct answers.
async::task<std::uint64_t> ask(async::engine& engine, async::message_channel channel) {
  std::uint64_t correct = 0;
  for (std::uint64_t number = 0; number < messages_per_client; ++number) {
    (co_await channel.send(std::as_bytes(std::span(&number, 1)))).value();
    const auto answer = co_await channel.receive(verbena::deadline::after(30s));
    if (!answer) break;
    correct += std::memcmp(answer->bytes().data(), &number, sizeof number) == 0 ? 1 : 0;
    co_await engine.wait_until(verbena::deadline::after(1ms));
  }
  (co_await channel.send(std::span<const std::byte>())).value();
  if (!co_await channel.drain(verbena::deadline::after(30s))) co_return 0;
  co_return correct;
}
// [/client]

async::task<std::uint64_t> ask_all(async::engine& engine,
                                   std::vector<async::message_channel> channels) {
  const auto answers = co_await async::when_all(
      channels,
      [&](async::message_channel& each, std::size_t) { return ask(engine, std::move(each)); });
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
  auto client_engine = async::engine::create(context, {.operations = places}).value();
  std::vector<async::message_channel> served;
  std::vector<async::message_channel> clients;
  for (std::uint32_t i = 0; i < client_count; ++i) {
    // [prepare]
    auto here = verbena::message_channel::prepare(pd, engine.hub(), small).value();
    // [/prepare]
    auto there = verbena::message_channel::prepare(pd, client_engine.hub(), small).value();
    const auto to_here = here.endpoint();  // for the client; here both sides are one process
    served.emplace_back(engine, std::move(here).handshake(there.endpoint()).value());
    clients.emplace_back(client_engine, std::move(there).handshake(to_here).value());
  }

  std::uint64_t correct = 0;
  std::thread client_thread(
      [&] { correct = client_engine.run(ask_all(client_engine, std::move(clients))); });
  // [run]
  const std::uint64_t echoed = engine.run(serve(std::move(served)));
  // [/run]
  client_thread.join();
  std::printf("%u clients on one thread: %llu messages returned, %llu correct answers\n",
              client_count, static_cast<unsigned long long>(echoed),
              static_cast<unsigned long long>(correct));
  return correct == client_count * messages_per_client ? 0 : 1;
}
