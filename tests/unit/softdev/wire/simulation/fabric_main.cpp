// SPDX-License-Identifier: MIT
// The program of `./dev fabric`: runs seeds of the simulated network.
//   fabric seed N          one seed
//   fabric trace N         one seed, with all packets
//   fabric seeds COUNT FIRST   COUNT seeds from FIRST on; prints progress
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/unit/softdev/wire/simulation/simulation.hpp"

namespace {

using verbena::softdev::wire::simulation::outcome;
using verbena::softdev::wire::simulation::packet_observer;
using verbena::softdev::wire::simulation::run_seed;

void print(std::uint64_t seed, const outcome& what) {
  std::printf(
      "seed %llu: %s\n  %llu requests, %llu packets, %llu faults; %s\n",
      static_cast<unsigned long long>(seed), what.violation.empty() ? "ok" : what.violation.c_str(),
      static_cast<unsigned long long>(what.requests), static_cast<unsigned long long>(what.packets),
      static_cast<unsigned long long>(what.faults), what.setting.c_str());
}

void print_packet(verbena::softdev::time_ns when, std::size_t host,
                  const verbena::softdev::wire::packet& what) {
  std::printf(
      "%12.3f us  host %zu  opcode 0x%02x  to 0x%06x  PSN 0x%06x%s  syndrome 0x%02x  %zu bytes\n",
      static_cast<double>(when) / 1000, host, static_cast<unsigned>(what.opcode),
      what.destination_qpn, what.psn, what.ack_requested ? " A" : "  ", what.answer.syndrome,
      what.payload.size());
}

int run_one(std::uint64_t seed, const packet_observer& observer) {
  const outcome what = run_seed(seed, observer);
  print(seed, what);
  return what.violation.empty() ? 0 : 1;
}

int run_many(std::uint64_t count, std::uint64_t first) {
  std::uint64_t failures = 0;
  outcome sum;
  for (std::uint64_t i = 0; i < count; ++i) {
    const outcome what = run_seed(first + i);
    sum.requests += what.requests;
    sum.packets += what.packets;
    sum.faults += what.faults;
    if (!what.violation.empty()) {
      ++failures;
      print(first + i, what);
    }
    const std::uint64_t done = i + 1;
    if (done % 1000 == 0 || done == count) {
      std::printf("%llu of %llu seeds, %llu failed; %llu requests, %llu packets, %llu faults\n",
                  static_cast<unsigned long long>(done), static_cast<unsigned long long>(count),
                  static_cast<unsigned long long>(failures),
                  static_cast<unsigned long long>(sum.requests),
                  static_cast<unsigned long long>(sum.packets),
                  static_cast<unsigned long long>(sum.faults));
      std::fflush(stdout);
    }
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int base = 10;
  if (argc == 3 && std::strcmp(argv[1], "seed") == 0)
    return run_one(std::strtoull(argv[2], nullptr, base), {});
  if (argc == 3 && std::strcmp(argv[1], "trace") == 0)
    return run_one(std::strtoull(argv[2], nullptr, base), print_packet);
  if (argc == 4 && std::strcmp(argv[1], "seeds") == 0)
    return run_many(std::strtoull(argv[2], nullptr, base), std::strtoull(argv[3], nullptr, base));
  std::fputs("usage: fabric seed N | fabric trace N | fabric seeds COUNT FIRST\n", stderr);
  return 2;
}
