// SPDX-License-Identifier: MIT
// A connection fails with messages in flight. Both sides reconnect. The sender learns which
// messages have arrived, and sends the others again. Each message arrives once.
#include <verbena/verbena.hpp>

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr unsigned messages = 5;
constexpr unsigned before_the_end = 2;  // messages over the first connection

verbena::buffer_pool make_pool(const verbena::protection_domain& pd) {
  return verbena::buffer_pool::create(pd, {.classes = {{.bytes = 4096, .count = 16}}}).value();
}

unsigned receive(verbena::channel& from, const verbena::buffer_pool& pool, unsigned count,
                 verbena::deadline until) {
  unsigned sum = 0;
  std::vector<verbena::pending_operation> receives;
  receives.reserve(count);
  for (unsigned i = 0; i < count; ++i) receives.push_back(from.post_receive(*pool.take(4096)));
  for (auto& each : receives) {
    const auto* const done = each.wait(until);
    if (done == nullptr) return 0;
    done->value();
    const auto inbox = each.take_buffer();
    sum = 10 * sum + std::to_integer<unsigned>(inbox.bytes()[0]);
  }
  return sum;
}

// The receiver. The first connection fails after two messages.
unsigned be_the_receiver(verbena::bringup::listener& listening, verbena::deadline until) {
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  const auto pool = make_pool(pd);
  auto stream = listening.accept(until).value();
  auto channel =
      pd.create_channel({.counts_messages = true}).value().connect(stream, until).value();
  const unsigned first = receive(channel, pool, before_the_end, until);
  auto next_stream = listening.accept(until).value();
  channel.reconnect(next_stream, until).value();
  return 1000 * first + receive(channel, pool, messages - before_the_end, until);
}

}  // namespace

int main() {
  const auto until = verbena::deadline::after(20s);
  auto listening = verbena::bringup::listener::open({.host = "127.0.0.1"}).value();
  unsigned received = 0;
  std::thread receiver([&] { received = be_the_receiver(listening, until); });

  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  const auto pool = make_pool(pd);
  auto stream = verbena::bringup::stream::connect(listening.local_address(), until).value();
  auto channel =
      pd.create_channel({.counts_messages = true}).value().connect(stream, until).value();

  std::vector<verbena::pending_operation> sends;
  const auto send = [&](unsigned number) {
    auto outbox = *pool.take(4096);
    outbox.bytes()[0] = static_cast<std::byte>(number);
    return channel.post_send(std::move(outbox), {.length = 1});
  };
  sends.reserve(messages);
  for (unsigned i = 0; i < messages; ++i) sends.push_back(send(i + 1));
  for (unsigned i = 0; i < before_the_end; ++i)
    if (sends[i].wait(until) == nullptr) return 1;
  channel.flush();  // has the effect of a network failure
  std::printf("%s\n", channel.describe_failure().message().c_str());

  // [reconnect]
  auto next_stream = verbena::bringup::stream::connect(listening.local_address(), until).value();
  const auto again = channel.reconnect(next_stream, until).value();
  std::vector<verbena::pending_operation> repeated;
  for (unsigned i = 0; i < messages; ++i)
    if (again.reconcile(*sends[i].poll()) == verbena::delivery::not_done)
      repeated.push_back(send(i + 1));
  // [/reconnect]
  for (auto& each : repeated)
    if (each.wait(until) == nullptr) return 1;
  receiver.join();
  std::printf("%zu of %u messages were sent again\n", repeated.size(), messages);
  return repeated.size() == messages - before_the_end && received == 12345 ? 0 : 1;
}
