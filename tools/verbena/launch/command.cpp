// SPDX-License-Identifier: MIT
#include "tools/verbena/launch/command.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "tools/verbena/ended_process.hpp"
#include "tools/verbena/launch/host_file.hpp"
#include "tools/verbena/launch/remote.hpp"
#include "tools/verbena/launch/spawn.hpp"
#include "tools/verbena/signals.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/net/store.hpp"

namespace verbena::tool {
namespace {

struct rank_process {
  pid_t pid = 0;  // 0: it has ended
  std::uint32_t rank = 0;
};

int refuse(const std::string& why) {
  std::cerr << "verbena launch: " + why + "\n";
  return run_status::failed;
}

void report(const rank_process& of, int ended) {
  // One write, because ranks may print at the same time.
  std::cerr << "verbena launch: rank " + std::to_string(of.rank) + " (process " +
                   std::to_string(of.pid) + ") " + describe_end(ended) + "\n";
}

// Waits until all ranks have ended, and returns the status of the first one that failed.
int wait_for_all(std::vector<rank_process>& ranks, const awaited_signals& signals) {
  int outcome = 0;
  const auto is_running = [](const rank_process& each) { return each.pid != 0; };
  while (std::ranges::any_of(ranks, is_running)) {
    const auto got = signals.wait();
    if (got.number != SIGCHLD) {
      // The ranks are in the group of this process: the terminal sends its signals to them too.
      for (const auto& each : ranks)
        if (is_running(each) && !got.reached_group) ::kill(each.pid, got.number);
      continue;
    }
    for (auto& each : ranks) {
      int ended = 0;
      if (!is_running(each) || ::waitpid(each.pid, &ended, WNOHANG) != each.pid) continue;
      if (exit_status_of(ended) != 0) {
        report(each, ended);
        if (outcome == 0) outcome = exit_status_of(ended);
      }
      each.pid = 0;
    }
  }
  return outcome;
}

int launch_here(const launch_options& options) {
  const awaited_signals signals({SIGINT, SIGTERM, SIGCHLD});
  const std::string secret = net::random_secret();
  const auto store = net::store::open({.host = "127.0.0.1"}, {.secret = secret});
  if (!store) return refuse(store.error().message());
  const auto set = [](const char* name, const std::string& value) {
    return ::setenv(name, value.c_str(), 1) == 0;  // NOLINT(concurrency-mt-unsafe): one thread
  };
  if (!set("VERBENA_STORE", to_string(store->local_address())) || !set("VERBENA_SECRET", secret) ||
      !set("WORLD_SIZE", std::to_string(options.ranks)))
    return refuse("the environment could not be set");
  ::unsetenv("VERBENA_NETWORK");  // NOLINT(concurrency-mt-unsafe): one thread
  std::vector<rank_process> ranks;
  std::cout.flush();
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    const std::string text = std::to_string(rank);
    spawned made{.code = ENOMEM, .status = run_status::failed};
    if (set("RANK", text) && set("LOCAL_RANK", text))
      made = spawn(options.command, {.mask = signals.before()});
    if (made.pid == 0) {
      static_cast<void>(refuse("rank " + text + ": " + options.command.front() + ": " +
                               std::generic_category().message(made.code)));
      for (const auto& each : ranks) ::kill(each.pid, SIGTERM);
      static_cast<void>(wait_for_all(ranks, signals));
      return made.status;
    }
    ranks.push_back({.pid = made.pid, .rank = rank});
  }
  return wait_for_all(ranks, signals);
}

}  // namespace

int execute(const launch_options& options) {
  if (options.hosts.empty()) return launch_here(options);
  auto hosts = read_hosts(options.hosts);
  if (!hosts) return refuse(hosts.error().message());
  const auto placed = place_ranks(*std::move(hosts), options.ranks, options.hosts);
  if (!placed) return refuse(placed.error().message());
  return launch_on(*placed, options);
}

}  // namespace verbena::tool
