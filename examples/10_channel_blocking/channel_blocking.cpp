// SPDX-License-Identifier: MIT
// The simplest level of a channel: each call returns when its operation is over. Two threads, each
// with its end of one connection, play ping-pong; then one reads the other's memory.
#include <verbena/verbena.hpp>

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

int main() {
  using namespace std::chrono_literals;
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  const auto until = verbena::deadline::after(10s);

  auto ping = pd.create_channel().value();
  auto pong = pd.create_channel({.access = verbena::access::remote_read}).value();
  const auto to_ping = ping.endpoint();  // bytes for the peer; here both sides are one process
  const auto to_pong = pong.endpoint();

  auto scores = pd.allocate(8, verbena::access::local_write | verbena::access::remote_read).value();
  std::thread peer([&, channel = std::move(pong).handshake(to_ping).value()]() mutable {
    for (int round = 0; round < 100; ++round) {
      channel.receive(verbena::sink(scores), until).value();
      scores.bytes()[0] = static_cast<std::byte>(round + 1);
      channel.send(verbena::source(scores), until).value();
    }
    channel.receive(verbena::sink(scores, 4, 4), until).value();  // until the other side is done
  });

  auto channel = std::move(ping).handshake(to_pong).value();
  auto ball = pd.allocate(8, verbena::access::local_write).value();
  for (int round = 0; round < 100; ++round) {
    channel.send(verbena::source(ball), until).value();
    channel.receive(verbena::sink(ball), until).value();
  }
  const auto read = channel.read(verbena::sink(ball, 0, 1), scores.remote(), until);
  std::printf("read %u byte of the peer: %d rounds\n", read.value(),
              std::to_integer<int>(ball.bytes()[0]));
  channel.send(verbena::source(ball, 0, 4), until).value();
  peer.join();
  return ball.bytes()[0] == std::byte{100} ? 0 : 1;
}
