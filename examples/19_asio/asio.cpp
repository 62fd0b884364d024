// SPDX-License-Identifier: MIT
// An echo server in an io_context of Asio: one thread serves 1,000 clients, each with a message
// channel, and sleeps while none of them sends. 18_coroutines and 22_senders are the same server in
// other forms.
//   asio_echo [--clients N] [--host ADDRESS]
#include <verbena/asio.hpp>
#include <verbena/verbena.hpp>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <asio/io_context.hpp>
#include <asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <utility>

#include "examples/echo_clients.hpp"

namespace {

using namespace std::chrono_literals;
using asio::awaitable;
using verbena::deadline;

constexpr auto as_tuple = asio::experimental::as_tuple(asio::use_awaitable);

// [echo]
// Returns each message to its sender, until an empty message or a failure of the channel.
awaitable<void> echo(verbena::asio::message_channel channel, std::uint64_t& count) {
  for (;;) {
    auto [failure, message] = co_await channel.async_receive(as_tuple);
    if (failure || message->length() == 0) co_return;
    const auto [refusal, sent] = co_await channel.async_send(message->bytes(), as_tuple);
    if (refusal) co_return;
    ++count;
  }
}
// [/echo]

// [serve]
// Accepts `count` clients and serves them concurrently. Adds the number of messages to `sum`.
awaitable<void> serve(verbena::asio::message_listener listener, std::uint32_t count,
                      std::uint64_t& sum) {
  while (count-- > 0) {
    auto [failure, client] = co_await listener.async_accept(deadline::after(60s), as_tuple);
    if (failure) co_return;
    asio::co_spawn(listener.get_executor(), echo(*std::move(client), sum), asio::detached);
  }
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
  asio::io_context io;
  auto engine = verbena::asio::engine::create(context, io, {.operations = places}).value();
  // [/engine]
  // [listen]
  auto listener = verbena::asio::listen(engine, pd, {.host = settings.host, .port = 0},
                                        {.channels = examples::small_messages})
                      .value();
  // [/listen]
  const verbena::bringup::address server{.host = settings.host, .port = listener.port()};
  return examples::serve_clients(context, pd, server, count, [&] {
    // [run]
    std::uint64_t sum = 0;
    asio::co_spawn(io, serve(std::move(listener), count, sum), asio::detached);
    io.run();  // until all clients have left
    return sum;
    // [/run]
  });
}
