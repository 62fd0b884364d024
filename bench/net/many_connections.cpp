// SPDX-License-Identifier: MIT
// Clients in four processes connect message channels to one server process at the same time, on
// soft0. Argument: the number of connections. Each client exchanges one message. Prints the 99th
// percentile of the time from the start of an attempt until it is connected, in nanoseconds.
// Ends with status 1 unless all clients are connected.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <span>
#include <thread>
#include <utility>

#include "bench/local/process_pair.hpp"
#include "verbena/async.hpp"
#include "verbena/verbena.hpp"

namespace {

using namespace std::chrono_literals;
namespace async = verbena::async;
using bench::fail;
using clock = std::chrono::steady_clock;

constexpr std::uint32_t client_processes = 4;
constexpr std::uint32_t most_connections = 4000;
constexpr verbena::message_channel_options channel_options{
    .message_bytes = 64, .queues = {.max_send_wr = 2, .max_recv_wr = 2}};
constexpr std::uint32_t operations_of_channel = 4 + verbena::message_channel::own_operations;

verbena::deadline time_limit() { return verbena::deadline::after(60s); }

// Memory that all processes share.
struct common {
  std::atomic<std::uint32_t> ready = 0;
  std::atomic<std::uint16_t> port = 0;
  std::array<double, most_connections> times = {};
};

common& shared() {
  void* const memory =
      ::mmap(nullptr, sizeof(common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("no shared memory");
  return *new (memory) common;
}

struct side {
  explicit side(std::uint32_t connections)
      : context(verbena::open_device("soft0").value()),
        pd(context.allocate_pd().value()),
        engine(async::engine::create(context, {.operations = connections * operations_of_channel})
                   .value()) {}

  verbena::context context;
  verbena::protection_domain pd;
  async::engine engine;
};

async::task<void> answer(async::message_channel client) {
  const auto message = co_await client.receive();
  if (!message || !co_await client.send(message->bytes())) fail("a client was lost");
  if (!co_await client.drain()) fail("an answer was not delivered");
}

async::task<void> serve(async::message_listener& at, std::uint32_t connections) {
  async::scope clients;
  for (std::uint32_t i = 0; i < connections; ++i) {
    auto client = co_await at.accept(time_limit());
    if (!client) fail(client.error().message().c_str());
    clients.spawn(answer(std::move(*client)));
  }
  co_await clients.join();
}

async::task<void> connect(side& mine, std::uint16_t port, double& nanoseconds) {
  // Not a temporary: see "g++ 12.2" in docs/guide/coroutines.md.
  const verbena::bringup::address to{.host = "127.0.0.1", .port = port};
  const async::connect_options options{.channel = channel_options, .retry_refused = 10s};
  const auto start = clock::now();
  auto channel = co_await async::connect(mine.engine, mine.pd, to, time_limit(), options);
  if (!channel) fail(channel.error().message().c_str());
  nanoseconds = std::chrono::duration<double, std::nano>(clock::now() - start).count();
  const std::array<std::byte, 8> message{};
  if (!co_await channel->send(message) || !co_await channel->receive()) fail("a message was lost");
}

void wait_for(const std::atomic<std::uint32_t>& count, std::uint32_t value) {
  while (count.load() < value) std::this_thread::yield();
}

void run_clients(common& with, std::uint32_t process, std::uint32_t connections) {
  const std::uint32_t share = connections / client_processes;
  side mine(share);
  ++with.ready;
  wait_for(with.ready, client_processes + 1);  // and the server
  mine.engine.run([&]() -> async::task<void> {
    async::scope connecting;
    for (std::uint32_t i = 0; i < share; ++i)
      connecting.spawn(connect(mine, with.port, with.times[process * share + i]));
    co_await connecting.join();
  }());
}

void run_server(common& with, std::uint32_t connections) {
  side mine(connections);
  auto listener = async::listen(mine.engine, mine.pd, {.host = "127.0.0.1", .port = 0},
                                {.channels = channel_options, .negotiation_timeout = 60s})
                      .value();
  with.port = listener.port();
  ++with.ready;
  mine.engine.run(serve(listener, connections));
}

bool all_succeeded(std::uint32_t children) {
  bool good = true;
  for (std::uint32_t i = 0; i < children; ++i) {
    int status = 0;
    good = ::wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 && good;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const auto connections =
      argc == 2 ? static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10)) : 0U;
  if (connections == 0 || connections > most_connections || connections % client_processes != 0)
    fail("usage: many_connections CONNECTIONS (a multiple of 4, at most 4000)");
  common& with = shared();
  for (std::uint32_t process = 0; process <= client_processes; ++process) {
    const pid_t child = ::fork();
    if (child < 0) fail("cannot fork");
    if (child != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(120);
    try {
      if (process == client_processes)
        run_server(with, connections);
      else
        run_clients(with, process, connections);
    } catch (const verbena::exception& failed) {
      ::_exit(verbena::print_error(failed.error()));
    }
    ::_exit(0);
  }
  if (!all_succeeded(client_processes + 1)) return 1;
  const std::span times(with.times.data(), connections);
  std::ranges::sort(times);
  std::printf("%.0f\n", times[connections * 99 / 100 - 1]);
  return 0;
}
