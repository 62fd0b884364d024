// SPDX-License-Identifier: MIT
// An echo server on one thread of an io_context: it serves clients with message channels and
// clients with TCP sockets, and sleeps while none of them sends. The clients run on a second
// thread, in an io_context of their own.
#include <verbena/asio.hpp>
#include <verbena/verbena.hpp>

#include <array>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
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
using asio::awaitable;
using asio::use_awaitable;
using asio::ip::tcp;

constexpr auto as_tuple = asio::experimental::as_tuple(use_awaitable);

constexpr std::uint32_t client_count = 50;  // of each kind
constexpr std::uint64_t messages_per_client = 20;
constexpr verbena::message_channel_options small{.message_bytes = 256,
                                                 .queues = {.max_send_wr = 4, .max_recv_wr = 4}};

std::span<const std::byte> bytes_of(const std::uint64_t& number) {
  return std::as_bytes(std::span(&number, 1));
}

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

// Returns the bytes of a client that uses TCP.
awaitable<void> echo(tcp::socket socket, std::uint64_t& count) {
  std::array<std::byte, 256> data;
  for (;;) {
    const auto [end, length] = co_await socket.async_read_some(asio::buffer(data), as_tuple);
    if (end) co_return;
    const auto [failure, sent] =
        co_await asio::async_write(socket, asio::buffer(data, length), as_tuple);
    if (failure) co_return;
    ++count;
  }
}

// Accepts all clients over TCP.
awaitable<void> listen(tcp::acceptor& acceptor, std::uint64_t& count) {
  for (std::uint32_t i = 0; i < client_count; ++i)
    asio::co_spawn(acceptor.get_executor(),
                   echo(co_await acceptor.async_accept(use_awaitable), count), asio::detached);
}

// Sends numbers and receives them, then an empty message. Adds the number of correct answers.
awaitable<void> ask(verbena::asio::message_channel channel, std::uint64_t& correct) {
  for (std::uint64_t number = 0; number < messages_per_client; ++number) {
    (co_await channel.async_send(bytes_of(number), use_awaitable)).value();
    // [deadline]
    // After 30 s the operation ends with asio::error::timed_out; the channel is unaffected.
    const auto answer =
        co_await channel.async_receive(verbena::deadline::after(30s), use_awaitable);
    // [/deadline]
    correct += std::memcmp(answer->bytes().data(), &number, sizeof number) == 0 ? 1 : 0;
  }
  (co_await channel.async_send(std::span<const std::byte>(), use_awaitable)).value();
  co_await channel.async_drain(verbena::deadline::after(30s), use_awaitable);
}

// Sends numbers over TCP and receives them, then closes the connection.
awaitable<void> ask(tcp::endpoint server, std::uint64_t& correct) {
  tcp::socket socket(co_await asio::this_coro::executor);
  co_await socket.async_connect(server, use_awaitable);
  for (std::uint64_t number = 0; number < messages_per_client; ++number) {
    co_await asio::async_write(socket, asio::buffer(&number, sizeof number), use_awaitable);
    std::uint64_t answer = 0;
    co_await asio::async_read(socket, asio::buffer(&answer, sizeof answer), use_awaitable);
    correct += answer == number ? 1 : 0;
  }
}

}  // namespace

int main() {
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  // [engine]
  // Each channel reserves a place of the engine for each request that it can have in flight.
  const std::uint32_t places = client_count * (4 + 4 + verbena::message_channel::own_operations);
  asio::io_context io;
  auto engine = verbena::asio::engine::create(context, io, {.operations = places}).value();
  // [/engine]
  asio::io_context client_io;
  auto client_engine =
      verbena::asio::engine::create(context, client_io, {.operations = places}).value();

  std::uint64_t over_rdma = 0;
  std::uint64_t over_tcp = 0;
  std::uint64_t correct = 0;
  for (std::uint32_t i = 0; i < client_count; ++i) {
    // [prepare]
    auto here = verbena::message_channel::prepare(pd, engine.hub(), small).value();
    // [/prepare]
    auto there = verbena::message_channel::prepare(pd, client_engine.hub(), small).value();
    const auto to_here = here.endpoint();  // for the client; here both sides are one process
    // [spawn]
    verbena::asio::message_channel served(engine,
                                          std::move(here).handshake(there.endpoint()).value());
    asio::co_spawn(io, echo(std::move(served), over_rdma), asio::detached);
    // [/spawn]
    verbena::asio::message_channel client(client_engine,
                                          std::move(there).handshake(to_here).value());
    asio::co_spawn(client_io, ask(std::move(client), correct), asio::detached);
  }
  // [tcp]
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  asio::co_spawn(io, listen(acceptor, over_tcp), asio::detached);
  // [/tcp]
  for (std::uint32_t i = 0; i < client_count; ++i)
    asio::co_spawn(client_io, ask(acceptor.local_endpoint(), correct), asio::detached);

  std::thread client_thread([&] { client_io.run(); });
  // [run]
  io.run();  // until all clients have ended
  // [/run]
  client_thread.join();
  std::printf(
      "%u clients of each kind on one thread: %llu messages returned over RDMA and %llu "
      "over TCP, %llu correct answers\n",
      client_count, static_cast<unsigned long long>(over_rdma),
      static_cast<unsigned long long>(over_tcp), static_cast<unsigned long long>(correct));
  return correct == 2 * client_count * messages_per_client ? 0 : 1;
}
