// SPDX-License-Identifier: MIT
// The program of `./dev fabric`: runs seeds of the simulated network.
#include <cstdint>
#include <cstdio>

#include "tests/unit/softdev/fabric_program.hpp"
#include "tests/unit/softdev/wire/simulation/simulation.hpp"

namespace {

using verbena::softdev::wire::simulation::outcome;
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

outcome run(std::uint64_t seed, bool with_trace) {
  return with_trace ? run_seed(seed, print_packet) : run_seed(seed);
}

verbena::softdev::testing::seed_counts count(const outcome& what) {
  return {.work = what.requests, .sent = what.packets, .faults = what.faults};
}

}  // namespace

int main(int argc, char** argv) {
  return verbena::softdev::testing::run_fabric<outcome>(
      argc, argv,
      {.work = "requests", .sent = "packets", .run = run, .print = print, .count = count});
}
