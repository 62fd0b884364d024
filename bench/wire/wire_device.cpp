// SPDX-License-Identifier: MIT
// soft0 between two hosts, and what the sockets of the kernel can do: runs one measurement of
// wire_modes.hpp and prints its number.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "bench/wire/wire_modes.hpp"

namespace {

using bench::hosts;

struct mode {
  std::string_view name;
  double (*run)(const hosts& between);
};

constexpr std::array modes = {
    mode{"udp_latency", bench::udp_latency},
    mode{"udp_bandwidth", bench::udp_bandwidth},
    mode{"udp_single_bandwidth", bench::udp_single_bandwidth},
    mode{"tcp_bandwidth", bench::tcp_bandwidth},
    mode{"send_latency", bench::send_latency},
    mode{"send_rate", bench::send_rate},
    mode{"write_bandwidth", bench::write_bandwidth},
    mode{"repair_time", bench::repair_time},
    mode{"fairness", bench::fairness},
    mode{"one_connection", [](const hosts& on) { return bench::rate_of_connections(on, 1); }},
    mode{"connections", [](const hosts& on) { return bench::rate_of_connections(on, 1000); }},
    mode{"icrc", [](const hosts& on) { return on.is_child() ? 0 : bench::icrc_time(); }},
    mode{"isal", [](const hosts& on) { return on.is_child() ? 0 : bench::isal_time(); }}};

int usage() {
  std::fputs("usage: wire_device loopback|veth MODE\nMODE:", stderr);
  for (const mode& each : modes) std::fprintf(stderr, " %s", each.name.data());
  std::fputs("\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return usage();
  const mode* wanted = nullptr;
  for (const mode& each : modes)
    if (each.name == argv[2]) wanted = &each;
  const std::string_view network = argv[1];
  if (wanted == nullptr || (network != "loopback" && network != "veth")) return usage();
  const auto between =
      hosts::start(network == "veth" ? bench::medium::veth : bench::medium::loopback);
  try {
    const double number = wanted->run(between);
    if (!between.is_child()) std::printf("%.3f\n", number);
  } catch (const std::exception& problem) {
    bench::fail(problem.what());
  }
  return between.pair().finish();
}
