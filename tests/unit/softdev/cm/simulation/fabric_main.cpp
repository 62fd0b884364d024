// SPDX-License-Identifier: MIT
// The program of `./dev fabric --connections`: runs seeds of the simulated connection managers.
#include <cstdint>
#include <cstdio>

#include "tests/unit/softdev/cm/simulation/simulation.hpp"
#include "tests/unit/softdev/fabric_program.hpp"

namespace {

namespace simulation = verbena::softdev::cm::simulation;
using simulation::outcome;
using simulation::run_seed;

void print(std::uint64_t seed, const outcome& what) {
  std::printf("seed %llu: %s\n  %llu established, %llu messages, %llu faults; %s\n",
              static_cast<unsigned long long>(seed),
              what.violation.empty() ? "ok" : what.violation.c_str(),
              static_cast<unsigned long long>(what.established),
              static_cast<unsigned long long>(what.messages),
              static_cast<unsigned long long>(what.faults), what.setting.c_str());
}

void print_message(verbena::softdev::cm::time_point when, std::size_t host,
                   const verbena::softdev::cm::mad& what) {
  std::printf("%12.3f ms  host %zu  attribute 0x%02x  from 0x%08x  to 0x%08x\n",
              std::chrono::duration<double, std::milli>(when.time_since_epoch()).count(), host,
              static_cast<unsigned>(what.kind), what.sender_id, what.receiver_id);
}

outcome run(std::uint64_t seed, bool with_trace) {
  return with_trace ? run_seed(seed, print_message) : run_seed(seed);
}

verbena::softdev::testing::seed_counts count(const outcome& what) {
  return {.work = what.attempts, .sent = what.messages, .faults = what.faults};
}

}  // namespace

int main(int argc, char** argv) {
  return verbena::softdev::testing::run_fabric<outcome>(
      argc, argv,
      {.work = "attempts", .sent = "messages", .run = run, .print = print, .count = count});
}
