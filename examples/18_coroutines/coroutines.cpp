// SPDX-License-Identifier: MIT
// An echo server with coroutines: one thread serves 1,000 clients, each with a message channel, and
// sleeps while none of them sends. 19_asio and 22_senders are the same server in other forms.
//   coroutines [--clients N] [--host ADDRESS]
#include <verbena/async.hpp>
#include <verbena/verbena.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

#include "examples/echo_clients.hpp"

namespace {

using namespace std::chrono_literals;
namespace async = verbena::async;
using verbena::deadline;

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
    auto client = co_await listener.accept(deadline::after(60s));
    if (!client) break;
    clients.spawn(serve_one(*std::move(client)));
  }
  co_await clients.join();
  co_return sum;
}
// [/serve]

}  // namespace

int main(int argc, char** argv) {
  const examples::echo_settings settings = examples::settings_of(argc, argv);
  const std::uint32_t count = settings.clients;
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  // [engine]
  // Each channel reserves a place of the engine for each operation that it can have in flight.
  const std::uint32_t places = count * examples::places_per_channel;
  auto engine = async::engine::create(context, {.operations = places}).value();
  // [/engine]
  // [listen]
  auto listener = async::listen(engine, pd, {.host = settings.host, .port = 0},
                                {.channels = examples::small_messages})
                      .value();
  // [/listen]
  const verbena::bringup::address server{.host = settings.host, .port = listener.port()};
  return examples::serve_clients(context, pd, server, count, [&] {
    // [run]
    return engine.run(serve(std::move(listener), count));
    // [/run]
  });
}
