// SPDX-License-Identifier: MIT
// Handlers, limits and cancellation in an io_context of Asio.
#include <verbena/asio.hpp>
#include <verbena/verbena.hpp>

#include <array>
#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/deferred.hpp>
#include <asio/experimental/parallel_group.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "examples/guide/snippets.hpp"
#include "examples/own_address.hpp"

namespace guide {
namespace {

using namespace std::chrono_literals;

// [callback]
// Writes `data` to the memory of the peer. `data` exists until the handler is called.
void write_page(verbena::asio::channel& channel, const verbena::memory_region& data,
                const verbena::remote_region& page, int& written) {
  channel.async_write(verbena::source(data), page,
                      [&](std::error_code failure, const verbena::operation_result& done) {
                        if (failure)
                          std::fprintf(stderr, "%s\n", done.error().message().c_str());
                        else
                          ++written;
                      });
}
// [/callback]

// [deadline]
// After 30 s the operation ends with asio::error::timed_out; the channel is unaffected.
asio::awaitable<verbena::receive_result> receive_soon(verbena::asio::message_channel& channel) {
  co_return co_await channel.async_receive(verbena::deadline::after(30s), asio::use_awaitable);
}
// [/deadline]

// [connect]
// Accepts one client.
asio::awaitable<void> accept_one(verbena::asio::message_listener& listener, std::string& received) {
  auto client = (co_await listener.async_accept(asio::use_awaitable)).value();
  const auto message = co_await receive_soon(client);
  received = message->text();
}
// Connects to the server and sends a message.
asio::awaitable<void> greet(verbena::asio::engine& engine, const verbena::protection_domain& pd,
                            verbena::bringup::address server) {
  auto channel = (co_await verbena::asio::async_connect(
                      engine, pd, server, verbena::deadline::after(10s), asio::use_awaitable))
                     .value();
  (co_await channel.async_send(verbena::bytes_of("hello"), asio::use_awaitable)).value();
  co_await channel.async_drain(asio::use_awaitable);
}
// [/connect]

// [complete]
// Connects a channel by the connection manager. The engine belongs to the device that
// `how.from` or the route selects.
asio::awaitable<void> connect_managed(verbena::asio::engine& engine,
                                      const verbena::protection_domain& pd,
                                      verbena::bringup::address server,
                                      verbena::cm::connector_options how,
                                      std::optional<verbena::asio::channel>& into) {
  const auto until = verbena::deadline::after(30s);
  auto peer = co_await engine.async_complete(
      verbena::cm::connector::resolve_in_steps(server, until, how), asio::use_awaitable);
  auto prepared = pd.create_channel(engine.hub(), {}).value();
  auto made = co_await engine.async_complete(
      std::move(prepared).connect_in_steps(peer.value(), {}, until), asio::use_awaitable);
  into.emplace(engine, std::move(made).value());
}
// [/complete]

// Waits for a request of the connection manager and accepts it.
asio::awaitable<void> accept_managed(verbena::asio::engine& engine,
                                     const verbena::protection_domain& pd,
                                     verbena::cm::listener& from, verbena::deadline until) {
  auto request = co_await engine.async_complete(from.accept_in_steps(until), asio::use_awaitable);
  auto prepared = pd.create_channel(engine.hub(), {}).value();
  auto accepting = std::move(prepared).accept_in_steps(std::move(request).value(), {}, until);
  auto made = co_await engine.async_complete(std::move(accepting), asio::use_awaitable);
  require(made.has_value());
}

void connect_both_by_manager() {
  auto listener = verbena::cm::listener::open({.host = own_address(), .port = 0}).value();
  const auto context = listener.id().context().value();
  const auto pd = context.allocate_pd().value();
  asio::io_context io;
  auto engine = verbena::asio::engine::create(context, io).value();
  const auto until = verbena::deadline::after(30s);
  const verbena::bringup::address to{.host = own_address(), .port = listener.port()};
  const verbena::cm::connector_options how{.from =
                                               verbena::cm::socket_address::parse(to.host).value()};
  std::optional<verbena::asio::channel> channel;
  asio::co_spawn(io, accept_managed(engine, pd, listener, until), asio::detached);
  asio::co_spawn(io, connect_managed(engine, pd, to, how, channel), asio::detached);
  io.run();
  require(channel.has_value());
}

// [group]
// Receives a message, but stops waiting when the timer expires.
void receive_until(verbena::asio::message_channel& channel, asio::steady_timer& timer,
                   std::error_code& outcome, std::string& received) {
  using asio::experimental::deferred;
  asio::experimental::make_parallel_group(channel.async_receive(deferred),
                                          timer.async_wait(deferred))
      .async_wait(asio::experimental::wait_for_one(),
                  [&](const std::array<std::size_t, 2>& /*order*/, std::error_code failure,
                      const verbena::receive_result& message, std::error_code /*expired*/) {
                    outcome = failure;
                    if (message) received = message->text();
                  });
}
// [/group]

// [cancel]
void receive_until_cancelled(verbena::asio::message_channel& channel,
                             asio::cancellation_signal& signal, std::error_code& outcome) {
  channel.async_receive(asio::bind_cancellation_slot(
      signal.slot(), [&](std::error_code failure, const verbena::receive_result& /*message*/) {
        outcome = failure;  // asio::error::operation_aborted after signal.emit()
      }));
}
// [/cancel]

void run_all() {
  connect_both_by_manager();
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  asio::io_context io;
  auto engine = verbena::asio::engine::create(context, io).value();
  auto one = pd.create_channel(engine.hub(), {.access = verbena::access::remote_write}).value();
  const auto to_one = one.endpoint();
  verbena::asio::channel channel(engine, std::move(one).handshake(to_one).value());
  const auto page =
      pd.allocate(4096, verbena::access::local_write | verbena::access::remote_write).value();
  const auto data = pd.allocate(64, verbena::access::local_write).value();
  int written = 0;
  write_page(channel, data, page.remote(), written);
  io.run();
  require(written == 1);

  auto left = verbena::message_channel::prepare(pd, engine.hub(), {}).value();
  const auto to_left = left.endpoint();
  verbena::asio::message_channel messages(engine, std::move(left).handshake(to_left).value());
  asio::steady_timer timer(io, 1ms);
  std::error_code outcome;
  std::string text;
  receive_until(messages, timer, outcome, text);
  io.restart();
  io.run();
  require(outcome == asio::error::operation_aborted && text.empty());

  asio::cancellation_signal signal;
  outcome.clear();
  receive_until_cancelled(messages, signal, outcome);
  signal.emit(asio::cancellation_type::total);
  io.restart();
  io.run();
  require(outcome == asio::error::operation_aborted);

  auto listener = verbena::asio::listen(engine, pd, {.host = "127.0.0.1", .port = 0}, {}).value();
  std::string received;
  asio::co_spawn(io, accept_one(listener, received), asio::detached);
  asio::co_spawn(io, greet(engine, pd, {.host = "127.0.0.1", .port = listener.port()}),
                 asio::detached);
  io.restart();
  io.run();
  require(received == "hello");

  // [strand]
  // Several threads call io.run(): the engine and the users of its channels are on one strand.
  const auto strand = asio::make_strand(io);
  auto shared = verbena::asio::engine::create(context, strand).value();
  // [/strand]
  require(shared.failure() == nullptr);
}

}  // namespace
}  // namespace guide

int main() { guide::run_all(); }
