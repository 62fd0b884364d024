// SPDX-License-Identifier: MIT
// Buffers that go into operations and come back: handles can be kept, dropped or forgotten, and the
// memory stays alive as long as the adapter may touch it.
#include <verbena/verbena.hpp>

#include <chrono>
#include <cstdio>
#include <deque>
#include <utility>

int main() {
  using namespace std::chrono_literals;
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  auto prepared = pd.create_channel().value();
  const auto endpoint = prepared.endpoint();  // for the peer; here the peer is ourselves
  auto channel = std::move(prepared).handshake(endpoint).value();
  const auto until = verbena::deadline::after(10s);

  const auto pool =
      verbena::buffer_pool::create(pd, {.classes = {{.bytes = 4096, .count = 16}}}).value();
  std::deque<verbena::pending_operation> receives;
  for (int i = 0; i < 8; ++i) receives.push_back(channel.post_receive(*pool.take(4096)));

  unsigned sum = 0;
  for (unsigned message = 0; message < 1000; ++message) {
    auto outbox = *pool.take(4096);
    outbox.bytes()[0] = static_cast<std::byte>(message);
    auto send = channel.post_send(std::move(outbox), {.length = 64});

    auto& receive = receives.front();
    const auto* received = receive.wait(until);
    if (received == nullptr || !*received || !send.wait(until)) return 1;
    auto inbox = receive.take_buffer();
    sum += std::to_integer<unsigned>(inbox.bytes()[0]);
    receives.pop_front();
    receives.push_back(channel.post_receive(std::move(inbox)));  // the same memory, again
  }  // the outbox goes back to the pool with the handle
  std::printf("1000 messages through %zu buffers, sum %u\n", pool.count(), sum);
  return sum == 124716 ? 0 : 1;
}
