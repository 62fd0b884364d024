// SPDX-License-Identifier: MIT
// The programs of `./dev fabric`: run seeds of a simulation.
//   fabric seed N          one seed
//   fabric trace N         one seed, with all packets or messages
//   fabric seeds COUNT FIRST   COUNT seeds from FIRST on; prints progress
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verbena::softdev::testing {

/// The sums of a run of seeds. Threads: value.
struct seed_counts {
  std::uint64_t work = 0;  ///< requests or attempts
  std::uint64_t sent = 0;  ///< packets or messages
  std::uint64_t faults = 0;
};

/// A simulation. `Outcome` is the result of a seed. Threads: value.
template <class Outcome>
struct fabric_simulation {
  const char* work;  ///< the name of seed_counts::work
  const char* sent;  ///< the name of seed_counts::sent
  Outcome (*run)(std::uint64_t seed, bool with_trace);
  void (*print)(std::uint64_t seed, const Outcome& what);
  seed_counts (*count)(const Outcome& what);
};

template <class Outcome>
int run_one_seed(const fabric_simulation<Outcome>& of, std::uint64_t seed, bool with_trace) {
  const Outcome what = of.run(seed, with_trace);
  of.print(seed, what);
  return what.violation.empty() ? 0 : 1;
}

template <class Outcome>
int run_seeds(const fabric_simulation<Outcome>& of, std::uint64_t count, std::uint64_t first) {
  std::uint64_t failures = 0;
  seed_counts sum;
  for (std::uint64_t done = 1; done <= count; ++done) {
    const std::uint64_t seed = first + done - 1;
    const Outcome what = of.run(seed, false);
    const seed_counts of_seed = of.count(what);
    sum.work += of_seed.work;
    sum.sent += of_seed.sent;
    sum.faults += of_seed.faults;
    if (!what.violation.empty()) {
      ++failures;
      of.print(seed, what);
    }
    if (done % 1000 != 0 && done != count) continue;
    std::printf("%llu of %llu seeds, %llu failed; %llu %s, %llu %s, %llu faults\n",
                static_cast<unsigned long long>(done), static_cast<unsigned long long>(count),
                static_cast<unsigned long long>(failures),
                static_cast<unsigned long long>(sum.work), of.work,
                static_cast<unsigned long long>(sum.sent), of.sent,
                static_cast<unsigned long long>(sum.faults));
    std::fflush(stdout);
  }
  return failures == 0 ? 0 : 1;
}

/// Runs the command line of a program.
template <class Outcome>
int run_fabric(int argc, char** argv, const fabric_simulation<Outcome>& of) {
  const auto number = [&](int index) { return std::strtoull(argv[index], nullptr, 10); };
  if (argc == 3 && std::strcmp(argv[1], "seed") == 0) return run_one_seed(of, number(2), false);
  if (argc == 3 && std::strcmp(argv[1], "trace") == 0) return run_one_seed(of, number(2), true);
  if (argc == 4 && std::strcmp(argv[1], "seeds") == 0) return run_seeds(of, number(2), number(3));
  std::fputs("usage: fabric seed N | fabric trace N | fabric seeds COUNT FIRST\n", stderr);
  return 2;
}

}  // namespace verbena::softdev::testing
