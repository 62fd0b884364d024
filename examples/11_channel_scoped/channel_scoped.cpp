// SPDX-License-Identifier: MIT
// The scoped level of a channel: operations on memory of the program run concurrently and have
// completed when the scope ends, also if its body fails.
#include <verbena/verbena.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

int main() {
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  auto prepared = pd.create_channel({.queues = {.max_send_sge = 2}}).value();
  const auto endpoint = prepared.endpoint();  // for the peer; here the channel is its own peer
  auto channel = std::move(prepared).handshake(endpoint).value();

  auto memory = pd.allocate(64, verbena::access::local_write).value();
  std::ranges::copy(verbena::bytes_of("hello world"), memory.bytes().begin());

  const auto outcome = channel.scope([&](verbena::operation_scope& scope) {
    verbena::sink inbox(memory, 32, 32);
    auto receive = scope.receive(std::move(inbox));  // moves the sink into the scope …
    const std::array words = {verbena::source(memory, 6, 5), verbena::source(memory, 5, 1)};
    auto send = scope.send(words);
    const auto length = receive.wait().value();
    inbox = receive.take_sink();  // … and back after the completion
    auto again = scope.receive(std::move(inbox));
    auto second = scope.send(verbena::source(memory, 0, 5));
    return length + again.wait().value();
    // The scope waits for the two sends.
  });
  if (!outcome) {
    std::printf("%s\n", outcome.error().message().c_str());
    return 1;
  }
  std::printf("received %u bytes in two messages\n", *outcome.body());
  return std::ranges::equal(memory.bytes().subspan(32, 5), verbena::bytes_of("hello")) ? 0 : 1;
}
