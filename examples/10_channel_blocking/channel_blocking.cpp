// SPDX-License-Identifier: MIT
// The blocking level of a channel: each call returns when its operation has completed. Two threads,
// each with one side of a connection, exchange messages. Then one side reads memory of the other.
#include <verbena/verbena.hpp>

#include <cstdio>
#include <thread>
#include <utility>

int main() {
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();

  auto ping = pd.create_channel().value();
  auto pong = pd.create_channel({.access = verbena::access::remote_read}).value();
  const auto to_ping = ping.endpoint();  // bytes for the peer; here both sides are one process
  const auto to_pong = pong.endpoint();

  auto scores = pd.allocate(8, verbena::access::local_write | verbena::access::remote_read).value();
  std::thread peer([&, channel = std::move(pong).handshake(to_ping).value()]() mutable {
    for (int round = 0; round < 100; ++round) {
      channel.receive(verbena::sink(scores)).value();
      scores.bytes()[0] = static_cast<std::byte>(round + 1);
      channel.send(verbena::source(scores)).value();
    }
    channel.receive(verbena::sink(scores, 4, 4)).value();  // the other side has finished
  });

  auto channel = std::move(ping).handshake(to_pong).value();
  auto ball = pd.allocate(8, verbena::access::local_write).value();
  for (int round = 0; round < 100; ++round) {
    channel.send(verbena::source(ball)).value();
    channel.receive(verbena::sink(ball)).value();
  }
  const auto read = channel.read(verbena::sink(ball, 0, 1), scores.remote());
  std::printf("read %u byte of the peer: %d rounds\n", read.value(),
              std::to_integer<int>(ball.bytes()[0]));
  channel.send(verbena::source(ball, 0, 4)).value();
  peer.join();
  return ball.bytes()[0] == std::byte{100} ? 0 : 1;
}
