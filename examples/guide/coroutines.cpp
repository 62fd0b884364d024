// SPDX-License-Identifier: MIT
// Coroutines in a loop of the program, and many reads at once.
#include <poll.h>

#include <verbena/async.hpp>
#include <verbena/verbena.hpp>

#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "examples/guide/snippets.hpp"

namespace guide {
namespace {

namespace async = verbena::async;

// [reads]
// Reads pages of a remote table into `memory`, all at once. Returns whether all succeeded.
async::task<bool> read_pages(async::channel& channel, const verbena::memory_region& memory,
                             verbena::remote_region table, std::vector<std::size_t> pages) {
  constexpr std::size_t bytes = 256;
  const auto done = co_await async::when_all(pages, [&](std::size_t page, std::size_t i) {
    return channel.read(verbena::sink(memory, bytes * i, bytes), table.slice(bytes * page, bytes));
  });
  for (const verbena::operation_result& each : done)
    if (!each) co_return false;
  co_return true;
}
// [/reads]

// [sender]
// Reads the first page of each table at once. Returns whether both reads succeeded.
bool read_both(async::engine& engine, async::channel& channel, const verbena::memory_region& memory,
               verbena::remote_region one, verbena::remote_region other) {
  auto reads = async::execution::when_all(channel.read(verbena::sink(memory, 0, 256), one),
                                          channel.read(verbena::sink(memory, 256, 256), other));
  const auto done = engine.run(std::move(reads));  // nullopt if it was stopped
  return done && std::get<0>(*done) && std::get<1>(*done);
}
// [/sender]

async::task<void> keep(async::task<bool> of, std::optional<bool>& value) {
  value = co_await std::move(of);
}

// [loop]
void loop(async::engine& engine, const std::optional<bool>& outcome) {
  while (!outcome) {
    engine.poll();                           // resumes coroutines
    if (outcome || !engine.arm()) continue;  // true: nothing is left to do
    pollfd events{.fd = engine.fd(), .events = POLLIN, .revents = 0};
    ::poll(&events, 1, engine.next_deadline().poll_timeout_ms());
  }
}
// [/loop]

}  // namespace

void coroutines_in_a_loop_of_the_program() {
  const auto context = verbena::open_device().value();
  const auto pd = context.allocate_pd().value();
  auto engine = async::engine::create(context).value();
  const verbena::channel_options options{.queues = {.max_send_wr = 4, .max_recv_wr = 4},
                                         .access = verbena::access::remote_read};
  auto one = pd.create_channel(engine.hub(), options).value();
  auto other = pd.create_channel(engine.hub(), options).value();
  const auto to_one = one.endpoint();
  async::channel channel(engine, std::move(one).handshake(other.endpoint()).value());
  const auto peer = std::move(other).handshake(to_one).value();
  const auto table =
      pd.allocate(4096, verbena::access::local_write | verbena::access::remote_read).value();
  const auto memory = pd.allocate(4096, verbena::access::local_write).value();
  std::optional<bool> outcome;
  async::scope running;
  running.spawn(keep(read_pages(channel, memory, table.remote(), {7, 0, 3, 12, 5, 1}), outcome));
  loop(engine, outcome);
  require(outcome == true);
  const auto remote = table.remote();
  require(read_both(engine, channel, memory, remote.slice(0, 256), remote.slice(1024, 256)));
}

}  // namespace guide
