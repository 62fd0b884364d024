// SPDX-License-Identifier: MIT
// The owned level of a channel: an operation owns its buffer and returns it with the result. The
// memory stays registered as long as the adapter may access it, also if the handle is destroyed.
#include <verbena/verbena.hpp>

#include <cstdio>
#include <deque>
#include <utility>

int main() {
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  auto prepared = pd.create_channel().value();
  const auto endpoint = prepared.endpoint();  // for the peer; here the channel is its own peer
  auto channel = std::move(prepared).handshake(endpoint).value();

  const auto pool =
      verbena::buffer_pool::create(pd, {.classes = {{.bytes = 4096, .count = 16}}}).value();
  std::deque<verbena::pending_operation> receives;
  for (int i = 0; i < 8; ++i) receives.push_back(channel.post_receive(*pool.take(4096)));

  unsigned sum = 0;
  for (unsigned message = 0; message < 1000; ++message) {
    auto outbox = *pool.take(4096);
    outbox.bytes()[0] = static_cast<std::byte>(message);
    auto send = channel.post_send(std::move(outbox), {.length = 64});
    send.wait().value();

    auto& receive = receives.front();
    receive.wait().value();  // raises an error if the connection fails
    auto inbox = receive.take_buffer();
    sum += std::to_integer<unsigned>(inbox.bytes()[0]);
    receives.pop_front();
    receives.push_back(channel.post_receive(std::move(inbox)));  // posts the same memory again
  }  // the handle of the send returns its buffer to the pool
  std::printf("1000 messages through %zu buffers, sum %u\n", pool.count(), sum);
  return sum == 124716 ? 0 : 1;
}
