// SPDX-License-Identifier: MIT
// Measures an operation of a group whose ranks are processes of this host, on soft0. Arguments:
//   barrier RANKS, all_reduce RANKS BYTES   prints the median over batches of the time of one
//                                           operation on rank 0, in nanoseconds; mpi_operations.c
//                                           measures the same with MPI
//   memory RANKS                            prints the resident memory of rank 0 that join() and a
//                                           first barrier need, in bytes
//   connect RANKS                           all ranks connect to all others on first use, together;
//                                           prints the time until the slowest has finished, divided
//                                           by the number of connections, in nanoseconds
//   connect_alone RANKS                     rank 0 connects to the others, one after another;
//                                           prints the median time of a connection
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/net.hpp"
#include "verbena/verbena.hpp"

namespace {

using namespace std::chrono_literals;
namespace net = verbena::net;

constexpr int batches = 21;

verbena::deadline time_limit() { return verbena::deadline::after(100s); }

template <class Operation>
double median_of_batches(std::size_t batch, Operation&& operation) {
  std::vector<double> all;
  for (int each = -1; each < batches; ++each) {  // the first batch is not counted
    const auto began = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < batch; ++i) operation();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
    if (each >= 0) all.push_back(took.count() / static_cast<double>(batch));
  }
  std::ranges::sort(all);
  return all[all.size() / 2];
}

/// Returns the resident memory of this process in bytes, including shared memory.
double resident_bytes() {
  std::ifstream from("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  from >> all >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

using clock = std::chrono::steady_clock;

double nanoseconds_since(clock::time_point start) {
  return std::chrono::duration<double, std::nano>(clock::now() - start).count();
}

/// The connections of the ranks of a group, made by their first operations.
class first_uses {
 public:
  first_uses(net::group& of, const verbena::protection_domain& pd)
      : group_(of),
        memory_(pd.allocate(4096, verbena::access::local_write | verbena::access::remote_write)
                    .value()),
        regions_(of.exchange("memory", memory_.remote(), time_limit()).value()) {}

  /// Returns the time of one connection if all ranks connect at the same time.
  double of_all() {
    meet("start");
    const auto start = clock::now();
    // The smaller rank of a pair may be the one that connects, or the larger one.
    for (std::uint32_t i = 1; i < group_.size(); ++i) use((group_.rank() + i) % group_.size());
    double mine = nanoseconds_since(start);
    double slowest = 0;
    const auto all = group_.exchange("time", std::as_bytes(std::span(&mine, 1)), time_limit());
    for (const net::exchanged_bytes& each : all.value()) {
      double one = 0;
      std::memcpy(&one, each.data(), sizeof one);
      slowest = std::max(slowest, one);
    }
    const double ranks = group_.size();
    return slowest / (ranks * (ranks - 1) / 2);
  }
  /// Returns the median time of a connection of rank 0 while the other ranks sleep.
  double of_one() {
    std::vector<double> times{0};
    if (group_.rank() == 0) {
      times.clear();
      for (std::uint32_t peer = 1; peer < group_.size(); ++peer) {
        const auto start = clock::now();
        use(peer);
        times.push_back(nanoseconds_since(start));
      }
    }
    meet("end");
    std::ranges::sort(times);
    return times[times.size() / 2];
  }

 private:
  void use(std::uint32_t peer) {
    group_[peer].write(verbena::source(memory_, 0, 8), regions_[peer].region).value();
  }
  void meet(std::string_view name) {
    static_cast<void>(group_.exchange(name, std::span<const std::byte>(), time_limit()).value());
  }

  net::group& group_;
  verbena::memory_region memory_;
  std::vector<net::peer_region> regions_;
};

void run_rank(const net::membership& who, std::string_view operation, std::size_t bytes) {
  const auto device = verbena::open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const double before = resident_bytes();
  const bool connects = operation.starts_with("connect");
  const net::group_options options{.connect = connects ? net::connect_mode::on_first_use
                                                       : net::connect_mode::at_join};
  auto group = net::group::join(pd, who, time_limit(), options).value();
  double median = 0;
  if (connects) {
    first_uses connections(group, pd);
    median = operation == "connect" ? connections.of_all() : connections.of_one();
    if (who.rank == 0) std::printf("%.0f\n", median);
    return;
  }
  if (operation == "memory") {
    group.barrier(time_limit()).value();
    median = resident_bytes() - before;
  } else if (operation == "barrier") {
    median = median_of_batches(100, [&] { group.barrier(time_limit()).value(); });
  } else {
    const auto memory = pd.allocate(bytes, verbena::access::local_write).value();
    std::memset(memory.bytes().data(), 0, bytes);
    const std::size_t batch = bytes <= 65536 ? 50 : 5;
    median = median_of_batches(batch, [&] {
      group.all_reduce<float>(verbena::sink(memory), std::plus<>(), time_limit()).value();
    });
  }
  group.barrier(time_limit()).value();
  if (who.rank == 0) std::printf("%.0f\n", median);
}

}  // namespace

int main(int argc, char** argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  if (argc < 3) return 2;
  const auto ranks = static_cast<std::uint32_t>(std::stoul(arguments[2]));
  const std::size_t bytes = argc > 3 ? std::stoul(arguments[3]) : 8;
  net::membership who{.size = ranks, .host = net::store_host::separate};
  const auto store = net::store::open({.host = "127.0.0.1"}).value();
  who.store = store.local_address();
  for (who.rank = 0; who.rank < ranks; ++who.rank) {
    const pid_t child = ::fork();
    if (child < 0) return 1;
    if (child != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = 0;
    try {
      run_rank(who, arguments[1], bytes);
    } catch (const verbena::exception& failed) {
      status = verbena::print_error(failed.error());
    }
    std::fflush(stdout);
    ::_exit(status);
  }
  int failed = 0;
  for (int status = 0; ::wait(&status) > 0;)
    if (status != 0) failed = 1;
  return failed;
}
