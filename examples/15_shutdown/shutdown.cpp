// SPDX-License-Identifier: MIT
// Receive loops that look for a shutdown request every 100 ms: a wait that times out leaves the
// receive posted and the connection intact. Once with a channel, once with a message channel.
#include <verbena/verbena.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

namespace {

using namespace std::chrono_literals;
using verbena::deadline;

// Shared by the receiving thread, which counts, and the main thread, which waits and stops it.
struct receiver_state {
  std::atomic<bool> stop = false;
  std::atomic<int> messages = 0;
  std::atomic<int> timeouts = 0;
};

void count(std::atomic<int>& events) {
  ++events;
  events.notify_all();
}

// Waits until `events` is at least `wanted`.
void wait_for(const std::atomic<int>& events, int wanted) {
  for (int seen = events; seen < wanted; seen = events) events.wait(seen);
}

// [channel]
// Counts messages until `state.stop` is set. All buffers return to the pool.
void count_messages(verbena::channel& channel, const verbena::buffer_pool& pool,
                    receiver_state& state) {
  auto receive = channel.post_receive(*pool.take(4096));
  while (!state.stop) {
    const auto* received = receive.wait(deadline::after(100ms));
    if (received == nullptr) {  // timed out; the receive is still posted
      count(state.timeouts);
      continue;
    }
    if (!*received) break;  // the connection failed
    count(state.messages);
    receive = channel.post_receive(receive.take_buffer());
  }
}
// [/channel]

// [message_channel]
void count_messages(verbena::message_channel& channel, receiver_state& state) {
  while (!state.stop) {
    const auto message = channel.receive(deadline::after(100ms));
    if (!message && !message.timed_out()) break;  // the channel failed
    count(message ? state.messages : state.timeouts);
  }
}
// [/message_channel]

// Calls `send` before and after several waits of `loop` have timed out, then stops `loop`. Returns
// the number of received messages.
template <class Loop, class Send>
int run(Loop loop, Send send) {
  receiver_state state;
  std::thread receiver([&] { loop(state); });
  send();
  wait_for(state.messages, 1);
  wait_for(state.timeouts, 3);
  send();
  wait_for(state.messages, 2);
  state.stop = true;
  receiver.join();
  return state.messages;
}

}  // namespace

int main() {
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();

  auto first = pd.create_channel().value();
  auto second = pd.create_channel().value();
  const auto to_first = first.endpoint();  // for the peer; here both sides are one process
  const auto to_second = second.endpoint();
  auto a = std::move(first).handshake(to_second).value();
  auto b = std::move(second).handshake(to_first).value();
  const auto pool =
      verbena::buffer_pool::create(pd, {.classes = {{.bytes = 4096, .count = 2}}}).value();
  auto memory = pd.allocate(8, verbena::access::local_write).value();
  const int over_channel = run([&](auto& state) { count_messages(b, pool, state); },
                               [&] { a.send(verbena::source(memory)).value(); });

  auto left = verbena::message_channel::prepare(pd).value();
  auto right = verbena::message_channel::prepare(pd).value();
  const auto to_left = left.endpoint();
  const auto to_right = right.endpoint();
  auto c = std::move(left).handshake(to_right).value();
  auto d = std::move(right).handshake(to_left).value();
  const int over_messages = run([&](auto& state) { count_messages(d, state); },
                                [&] { c.send(verbena::bytes_of("hello")).value(); });

  std::printf("received %d and %d messages, then stopped; the connections are intact: %s\n",
              over_channel, over_messages,
              b.failure() == nullptr && d.failure() == nullptr ? "yes" : "no");
  return over_channel == 2 && over_messages == 2 && b.failure() == nullptr ? 0 : 1;
}
