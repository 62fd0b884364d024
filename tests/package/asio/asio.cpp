// SPDX-License-Identifier: MIT
// A program that uses verbena::asio. Prints one line that the test looks for.
#include <verbena/asio.hpp>
#include <verbena/verbena.hpp>

#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <cstdio>
#include <span>
#include <system_error>
#include <utility>

int main() {
  const auto context = verbena::open_device("soft0").value();
  const auto pd = context.allocate_pd().value();
  asio::io_context io;
  auto engine = verbena::asio::engine::create(context, io).value();
  auto prepared = verbena::message_channel::prepare(pd, engine.hub(), {}).value();
  const auto self = prepared.endpoint();
  verbena::asio::message_channel channel(engine, std::move(prepared).handshake(self).value());
  unsigned length = 0;
  channel.async_receive([&](std::error_code failure, const verbena::receive_result& message) {
    if (!failure) length = message->length();
  });
  channel.async_send(std::as_bytes(std::span("text", 4)), asio::detached);
  io.run();
  std::printf("asio: received %u bytes\n", length);
  return length == 4 ? 0 : 1;
}
