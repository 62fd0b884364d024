// SPDX-License-Identifier: MIT
// A group of processes measures itself: the latency of a read between each pair of ranks, and the
// duration of barriers and collective operations.
//   group [RANKS]  starts 8 processes on this host, or RANKS
//   mpirun -n 4 group, or verbena launch -n 4 -- group
//                  starts 4 processes on this host
//   RANK=0 WORLD_SIZE=2 MASTER_ADDR=192.0.2.1 MASTER_PORT=29500 group
//                  is one rank; torchrun and srun set these variables
#include <verbena/net.hpp>
#include <verbena/verbena.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/ranks.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
namespace net = verbena::net;

constexpr std::size_t rounds = 100;

using examples::time_limit;

template <class Body>
double median_microseconds(Body&& body, std::size_t count = rounds) {
  std::vector<double> each(count);
  for (double& one : each) {
    const auto began = clock_type::now();
    body();
    one = std::chrono::duration<double, std::micro>(clock_type::now() - began).count();
  }
  std::ranges::sort(each);
  return each[count / 2];
}

/// Writes the latencies of this rank into the table of rank 0.
void measure_reads(net::group& group, verbena::memory_region& memory,
                   std::span<const net::peer_region> all) {
  const std::size_t row = group.size() * sizeof(double);
  std::vector<double> latencies;
  for (const auto& each : all)
    latencies.push_back(median_microseconds([&] {
      group[each.rank].read(verbena::sink(memory, 0, 8), each.region.slice(0, 8)).value();
    }));
  std::memcpy(memory.bytes().data() + 64, latencies.data(), row);
  const auto to = all[0].slice(4096 + group.rank() * row, row);
  group[0].write(verbena::source(memory, 64, row), to.region).value();
}

void print_table(const net::group& group, verbena::memory_region& memory) {
  std::printf("median latency of a read of 8 bytes, in microseconds\n  from\\to");
  for (std::uint32_t to = 0; to < group.size(); ++to) std::printf(" %8u", to);
  for (std::uint32_t from = 0; from < group.size(); ++from) {
    std::printf("\n  %7u", from);
    for (std::uint32_t to = 0; to < group.size(); ++to) {
      double latency = 0;
      const std::size_t at = (std::size_t{from} * group.size() + to) * sizeof latency;
      std::memcpy(&latency, memory.bytes().data() + 4096 + at, sizeof latency);
      std::printf(" %8.2f", latency);
    }
  }
  std::printf("\n");
}

/// Sums elements of all ranks.
void measure_all_reduce(net::group& group, const verbena::protection_domain& pd,
                        std::size_t count) {
  // [all_reduce]
  auto gradients = pd.allocate(count * sizeof(double), verbena::access::local_write).value();
  const auto sum = [&] {
    group.all_reduce<double>(verbena::sink(gradients), std::plus<>(), time_limit()).value();
  };
  // [/all_reduce]
  auto* const values = reinterpret_cast<double*>(gradients.bytes().data());
  std::fill_n(values, count, 1.0);
  sum();
  if (values[count - 1] != group.size()) throw std::runtime_error("the sum is wrong");
  const double median = median_microseconds(sum, rounds / 4);
  if (group.rank() == 0)
    std::printf("all_reduce of %zu bytes: %.1f microseconds\n", gradients.bytes().size(), median);
}

int run_rank() {
  // [join]
  const auto who = net::membership::from_environment();
  if (!who) return verbena::print_error(who.error());
  const auto device = verbena::open_device().value();
  const auto pd = device.allocate_pd().value();
  auto group = net::group::join(pd, *who, time_limit()).value();
  // [/join]

  auto memory = pd.allocate(4096 + std::size_t{group.size()} * group.size() * sizeof(double),
                            verbena::access::local_write | verbena::access::remote_read |
                                verbena::access::remote_write)
                    .value();
  // [exchange]
  const auto all = group.exchange("memory", memory.remote(), time_limit()).value();
  // [/exchange]

  measure_reads(group, memory, all);
  group.barrier(time_limit()).value();
  if (group.rank() == 0) print_table(group, memory);

  for (const auto algorithm :
       {net::barrier_algorithm::dissemination, net::barrier_algorithm::binary_tree,
        net::barrier_algorithm::central}) {
    const double median =
        median_microseconds([&] { group.barrier(time_limit(), algorithm).value(); });
    if (group.rank() == 0)
      std::printf("barrier of %u ranks, %s: %.1f microseconds\n", group.size(),
                  to_string(algorithm).c_str(), median);
  }
  for (const std::size_t count : {std::size_t{1}, std::size_t{1024}, std::size_t{16384}})
    measure_all_reduce(group, pd, count);
  // [end]
  // A rank that ended now would close the store, or memory that others read.
  group.barrier(time_limit()).value();
  // [/end]
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_ranks(argc, argv, run_rank); }
