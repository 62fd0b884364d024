// SPDX-License-Identifier: MIT
// Two sides send messages to each other at full rate, with windows of four messages. The channels
// manage receives, completions, buffers and credits.
#include <verbena/verbena.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

namespace {

constexpr std::uint64_t messages = 1000;

// [send]
// Sends the numbers from 1 up: odd numbers from a buffer, even numbers from ordinary memory.
verbena::send_result send_next(verbena::message_channel& channel) {
  const std::uint64_t number = channel.sent() + 1;
  const auto bytes = std::as_bytes(std::span(&number, 1));
  if (number % 2 == 0) return channel.try_send(bytes);
  auto outbox = channel.take_buffer();
  if (!outbox) return verbena::send_result::refuse(verbena::send_refusal::no_buffer, 0);
  std::memcpy(outbox->bytes().data(), bytes.data(), bytes.size());
  return channel.try_send(std::move(*outbox), {.length = 1024});  // sent without a copy
}
// [/send]

// [receive]
// Adds up the numbers of the received messages. Each message is destroyed after use.
void take_all(verbena::message_channel& channel, std::uint64_t& sum) {
  while (const auto message = channel.try_receive()) {
    std::uint64_t number = 0;
    std::memcpy(&number, message->bytes().data(), sizeof number);
    sum += number;
  }
}
// [/receive]

}  // namespace

int main() {
  using namespace std::chrono_literals;
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  const verbena::message_channel_options options{.message_bytes = 1024,
                                                 .queues = {.max_send_wr = 4, .max_recv_wr = 4},
                                                 .credits = verbena::credits::required,
                                                 .reliability = {.rnr_retry_count = 0}};
  auto first = verbena::message_channel::prepare(pd, options).value();
  auto second = verbena::message_channel::prepare(pd, options).value();
  const auto to_first = first.endpoint();  // for the peer; here both sides are one process
  const auto to_second = second.endpoint();
  auto a = std::move(first).handshake(to_second).value();
  auto b = std::move(second).handshake(to_first).value();

  const auto until = verbena::deadline::after(30s);
  std::array<std::uint64_t, 2> sums{};
  while (a.received() < messages || b.received() < messages) {
    while (a.sent() < messages && send_next(a)) {
    }
    while (b.sent() < messages && send_next(b)) {
    }
    take_all(a, sums[0]);
    take_all(b, sums[1]);
    for (const auto* const side : {&a, &b})
      if (side->failure() != nullptr) verbena::raise(side->describe());
    if (until.expired()) return 1;
  }
  if (!a.drain(until) || !b.drain(until)) return 1;
  const auto& counters = a.counters();
  std::printf("%llu messages each way, sums %llu and %llu\n",
              static_cast<unsigned long long>(messages), static_cast<unsigned long long>(sums[0]),
              static_cast<unsigned long long>(sums[1]));
  std::printf("one side: %llu inside their request, %llu waits for credit, %llu writes of credit\n",
              static_cast<unsigned long long>(counters.inlined),
              static_cast<unsigned long long>(counters.credit_waits),
              static_cast<unsigned long long>(counters.credit_writes));
  constexpr std::uint64_t sum = messages * (messages + 1) / 2;
  return sums[0] == sum && sums[1] == sum ? 0 : 1;
}
