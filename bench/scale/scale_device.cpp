// SPDX-License-Identifier: MIT
// The software device with many queue pairs, threads and processes: runs one measurement of
// scale_modes.hpp and prints its numbers.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "bench/scale/scale_modes.hpp"

namespace {

using bench::process_pair;

struct pair_mode {
  std::string_view name;
  double (*run)(const process_pair& pair, std::size_t count);
};
constexpr std::array pair_modes = {
    pair_mode{"write_rate", bench::write_rate}, pair_mode{"send_rate", bench::send_rate},
    pair_mode{"arming", bench::arming},         pair_mode{"beside", bench::rate_beside_waiting},
    pair_mode{"idle", bench::idle_time},        pair_mode{"thread_rate", bench::thread_rate}};

struct whole_mode {
  std::string_view name;
  std::string (*run)(std::size_t count);
};
constexpr std::array whole_modes = {whole_mode{"send_instructions", bench::send_instructions},
                                    whole_mode{"write_instructions", bench::write_instructions},
                                    whole_mode{"crowd", bench::crowd}};

int usage() {
  std::fputs("usage: scale_device MODE COUNT\nMODE:", stderr);
  for (const auto& each : pair_modes) std::fprintf(stderr, " %s", each.name.data());
  for (const auto& each : whole_modes) std::fprintf(stderr, " %s", each.name.data());
  std::fputs("\n", stderr);
  return 2;
}

int run(std::string_view name, std::size_t count) {
  for (const auto& each : whole_modes) {
    if (each.name != name) continue;
    if (const auto text = each.run(count); !text.empty()) std::puts(text.c_str());
    return 0;
  }
  for (const auto& each : pair_modes) {
    if (each.name != name) continue;
    const auto pair = process_pair::start();
    const double number = each.run(pair, count);
    if (pair.is_parent()) std::printf("%.6f\n", number);
    return pair.finish();
  }
  return usage();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return usage();
  try {
    return run(argv[1], std::strtoul(argv[2], nullptr, 10));
  } catch (const std::exception& problem) {
    bench::fail(problem.what());
  }
}
