// SPDX-License-Identifier: MIT
// Handlers, limits and cancellation in an io_context of Asio.
#include <verbena/asio.hpp>
#include <verbena/verbena.hpp>

#include <array>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/experimental/deferred.hpp>
#include <asio/experimental/parallel_group.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <span>
#include <system_error>
#include <utility>

#include "examples/guide/snippets.hpp"

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

// [group]
// Receives a message, but stops waiting when the timer expires.
void receive_until(verbena::asio::message_channel& channel, asio::steady_timer& timer,
                   std::error_code& outcome) {
  using asio::experimental::deferred;
  asio::experimental::make_parallel_group(channel.async_receive(deferred),
                                          timer.async_wait(deferred))
      .async_wait(asio::experimental::wait_for_one(),
                  [&](const std::array<std::size_t, 2>& /*order*/, std::error_code failure,
                      const verbena::receive_result& /*message*/,
                      std::error_code /*expired*/) { outcome = failure; });
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
  receive_until(messages, timer, outcome);
  io.restart();
  io.run();
  require(outcome == asio::error::operation_aborted);

  asio::cancellation_signal signal;
  outcome.clear();
  receive_until_cancelled(messages, signal, outcome);
  signal.emit(asio::cancellation_type::total);
  io.restart();
  io.run();
  require(outcome == asio::error::operation_aborted);

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
