// SPDX-License-Identifier: MIT
// Starts the processes of the group examples.
#pragma once

#include <verbena/net.hpp>
#include <verbena/verbena.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

namespace examples {

/// The time that each call of an example may take.
inline verbena::deadline time_limit() { return verbena::deadline::after(std::chrono::seconds(50)); }

/// A rank of a group, with its device.
struct joined {
  verbena::context device;
  verbena::protection_domain pd;
  verbena::net::group group;

  [[nodiscard]] static joined from_environment(const verbena::net::group_options& options = {}) {
    const auto who = verbena::net::membership::from_environment().value();
    auto device = verbena::open_device().value();
    auto pd = device.allocate_pd().value();
    auto group = verbena::net::group::join(pd, who, time_limit(), options).value();
    return {std::move(device), std::move(pd), std::move(group)};
  }
};

/// Calls `run_rank` in this process if a launcher has started it, otherwise in so many processes on
/// this host as the argument says; 8 without arguments. Returns the exit status.
template <class Run>
int run_ranks(int argc, char** argv, Run run_rank) {
  const std::span words(argv, static_cast<std::size_t>(argc));
  const long count = words.size() < 2 ? 8 : std::strtol(words[1], nullptr, 10);
  if (words.size() > 2 || count < 1 || count > verbena::net::max_ranks) {
    std::fprintf(stderr, "usage: %s [RANKS]\n", words[0]);
    return 2;
  }
  try {
    if (std::getenv("RANK") != nullptr || std::getenv("SLURM_PROCID") != nullptr ||
        std::getenv("PMIX_NAMESPACE") != nullptr || std::getenv("VERBENA_SERVICE") != nullptr)
      return run_rank();
    // A free port, which rank 0 opens again.
    const auto port = verbena::net::store::open({.host = "127.0.0.1"}).value().local_address().port;
    setenv("WORLD_SIZE", std::to_string(count).c_str(), 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
    for (long rank = 0; rank < count; ++rank) {
      const pid_t child = fork();
      if (child < 0) return 1;
      if (child != 0) continue;
      setenv("RANK", std::to_string(rank).c_str(), 1);
      std::exit(run_rank());
    }
    int failed = 0;
    for (int status = 0; wait(&status) > 0;)
      if (status != 0) ++failed;
    return failed == 0 ? 0 : 1;
  } catch (const verbena::exception& failed) {
    return verbena::print_error(failed.error());
  }
}

}  // namespace examples
