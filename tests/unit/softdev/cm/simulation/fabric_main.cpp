// SPDX-License-Identifier: MIT
// The program of `./dev fabric --connections`: runs seeds of the simulated connection managers.
//   fabric seed N          one seed
//   fabric trace N         one seed, with all messages
//   fabric seeds COUNT FIRST   COUNT seeds from FIRST on; prints progress
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/unit/softdev/cm/simulation/simulation.hpp"

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

int run_one(std::uint64_t seed, const simulation::message_observer& observer) {
  const outcome what = run_seed(seed, observer);
  print(seed, what);
  return what.violation.empty() ? 0 : 1;
}

int run_many(std::uint64_t count, std::uint64_t first) {
  std::uint64_t failures = 0;
  outcome sum;
  for (std::uint64_t i = 0; i < count; ++i) {
    const outcome what = run_seed(first + i);
    sum.attempts += what.attempts;
    sum.messages += what.messages;
    sum.faults += what.faults;
    if (!what.violation.empty()) {
      ++failures;
      print(first + i, what);
    }
    const std::uint64_t done = i + 1;
    if (done % 1000 == 0 || done == count) {
      std::printf("%llu of %llu seeds, %llu failed; %llu attempts, %llu messages, %llu faults\n",
                  static_cast<unsigned long long>(done), static_cast<unsigned long long>(count),
                  static_cast<unsigned long long>(failures),
                  static_cast<unsigned long long>(sum.attempts),
                  static_cast<unsigned long long>(sum.messages),
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
    return run_one(std::strtoull(argv[2], nullptr, base), print_message);
  if (argc == 4 && std::strcmp(argv[1], "seeds") == 0)
    return run_many(std::strtoull(argv[2], nullptr, base), std::strtoull(argv[3], nullptr, base));
  std::fputs("usage: fabric seed N | fabric trace N | fabric seeds COUNT FIRST\n", stderr);
  return 2;
}
