// SPDX-License-Identifier: MIT
// The software device between two processes: runs one measurement of device_modes.hpp and prints
// its number.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "bench/local/device_modes.hpp"

namespace {

using bench::device_settings;
using bench::memory_kind;
using bench::process_pair;

struct mode {
  std::string_view name;
  double (*run)(const process_pair& pair, const device_settings& of);
};

constexpr std::array modes = {mode{"write_latency", bench::write_latency},
                              mode{"send_latency", bench::send_latency},
                              mode{"event_latency", bench::event_latency},
                              mode{"atomic_latency", bench::atomic_latency},
                              mode{"write_rate", bench::write_rate},
                              mode{"send_rate", bench::send_rate},
                              mode{"write_bandwidth", bench::write_bandwidth},
                              mode{"read_bandwidth", bench::read_bandwidth},
                              mode{"send_bandwidth", bench::send_bandwidth},
                              mode{"registration", bench::registration},
                              mode{"connection", bench::connection}};

int usage() {
  std::fputs(
      "usage: local_device MODE shareable|ordinary SIZE (8 to 1073741824, a multiple of 8)\nMODE:",
      stderr);
  for (const mode& each : modes) std::fprintf(stderr, " %s", each.name.data());
  std::fputs("\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return usage();
  const mode* wanted = nullptr;
  for (const mode& each : modes)
    if (each.name == argv[1]) wanted = &each;
  const std::string_view kind = argv[2];
  const std::size_t size = std::strtoul(argv[3], nullptr, 10);
  const bool size_ok = size >= 8 && size <= (std::size_t{1} << 30) && size % 8 == 0;
  if (wanted == nullptr || (kind != "shareable" && kind != "ordinary") || !size_ok) return usage();
  const auto pair = process_pair::start();
  try {
    const double number = wanted->run(
        pair, {kind == "shareable" ? memory_kind::shareable : memory_kind::ordinary, size});
    if (pair.is_parent()) std::printf("%.3f\n", number);
  } catch (const std::exception& problem) {
    bench::fail(problem.what());
  }
  return pair.finish();
}
