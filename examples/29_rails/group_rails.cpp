// SPDX-License-Identifier: MIT
// Three ranks write to each other over two ports of soft0. The ranks are threads of this process.
#include <verbena/net.hpp>
#include <verbena/verbena.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

namespace net = verbena::net;
using namespace std::chrono_literals;

constexpr std::uint32_t ranks = 3;
constexpr std::size_t block_bytes = 1024UL * 1024;
constexpr verbena::access_flags all_access =
    verbena::access::local_write | verbena::access::remote_write;

std::vector<net::rail_port> open_ports() {
  std::vector<net::rail_port> ports;
  for (const std::uint8_t port : {1, 2}) {
    const auto context = verbena::open_device("soft0").value();
    ports.push_back(
        {.domain = context.allocate_pd().value(), .route = {.port = verbena::port_number(port)}});
  }
  return ports;
}

// Returns whether this rank has received the block of each rank.
bool run(const net::membership& who) {
  const auto until = verbena::deadline::after(40s);
  const auto context = verbena::open_device("soft0").value();
  const auto pd = context.allocate_pd().value();
  auto group = net::group::join(pd, who, until).value();
  const auto ports = open_ports();
  // One block for each rank.
  const auto received = net::rail_memory::allocate(ports, ranks * block_bytes, all_access).value();
  const auto block = net::rail_memory::allocate(ports, block_bytes, all_access).value();
  std::ranges::fill(block.bytes(), static_cast<std::byte>(who.rank + 1));
  // [group]
  // All ranks make the same calls. The memory outlives the connections.
  auto rails = net::group_rails::connect(group, ports, until).value();
  const auto theirs = group.exchange("received", received.remote(), until).value();
  for (std::uint32_t peer = 0; peer < group.size(); ++peer) {
    const auto place = theirs[peer].slice(group.rank() * block_bytes, block_bytes);
    rails[peer].write(net::rail_source(block), place, until).value();
  }
  group.barrier(until).value();  // the writes of all ranks are complete
  // [/group]
  bool is_right = true;
  for (std::uint32_t peer = 0; peer < ranks; ++peer) {
    const auto part = received.bytes().subspan(peer * block_bytes, block_bytes);
    const auto count = std::ranges::count(part, static_cast<std::byte>(peer + 1));
    is_right = is_right && static_cast<std::size_t>(count) == block_bytes;
  }
  group.barrier(until).value();  // no rank ends its rails while another one uses them
  return is_right;
}

}  // namespace

int main() {
  // soft0 has one port by default.
  ::setenv("VERBENA_SOFTDEV_PORTS", "2", 1);  // NOLINT(concurrency-mt-unsafe): no thread yet
  const auto store = net::store::open({.host = "127.0.0.1"}).value();
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      right += run({.rank = rank,
                    .size = ranks,
                    .store = store.local_address(),
                    .host = net::store_host::separate,
                    .name = "rails"})
                   ? 1
                   : 0;
    });
  for (auto& each : threads) each.join();
  std::printf("%d of %u ranks have received the blocks of all ranks\n", right.load(), ranks);
  return right == static_cast<int>(ranks) ? 0 : 1;
}
