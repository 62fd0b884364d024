// SPDX-License-Identifier: MIT
// A rank of mpirun_test.py that connects its channels on first use: by an all_reduce of all ranks.
#include <verbena/net.hpp>
#include <verbena/verbena.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>

namespace {

namespace net = verbena::net;

int run() {
  const auto until = verbena::deadline::after(std::chrono::seconds(50));
  const auto who = net::membership::from_environment().value();
  const auto device = verbena::open_device().value();
  const auto pd = device.allocate_pd().value();
  net::group_options options;
  options.connect = net::connect_mode::on_first_use;
  auto group = net::group::join(pd, who, until, options).value();
  auto memory = pd.allocate(sizeof(std::uint64_t), verbena::access::local_write).value();
  const std::uint64_t own = group.rank() + 1;
  std::memcpy(memory.bytes().data(), &own, sizeof own);
  group.all_reduce<std::uint64_t>(verbena::sink(memory), std::plus<>(), until).value();
  std::uint64_t sum = 0;
  std::memcpy(&sum, memory.bytes().data(), sizeof sum);
  group.barrier(until).value();
  std::printf("rank %u: sum %llu\n", group.rank(), static_cast<unsigned long long>(sum));
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const verbena::exception& failed) {
    return verbena::print_error(failed.error());
  }
}
