// SPDX-License-Identifier: MIT
#include "tools/verbena/launch/command.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "tools/verbena/ended_process.hpp"
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
  std::cerr << "verbena launch: " << why << '\n';
  return run_status::failed;
}

// The process that executes it becomes the program.
[[noreturn]] void become(const std::vector<char*>& words, const sigset_t& before, pid_t launcher) {
  // A rank must not outlive the launcher, whose store it uses.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != launcher) ::_exit(run_status::failed);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::execvp(words.front(), words.data());
  const int code = errno;
  // One write: other ranks may print at the same time.
  std::cerr << std::string("verbena launch: ") + words.front() + ": " +
                   std::generic_category().message(code) + "\n";
  ::_exit(code == ENOENT ? run_status::not_found : run_status::cannot_execute);
}

void report(const rank_process& of, int ended) {
  const std::string process = "verbena launch: rank " + std::to_string(of.rank) + " (process " +
                              std::to_string(of.pid) + ") ";
  const int signal = WTERMSIG(ended);
  std::cerr << process +
                   (WIFEXITED(ended)
                        ? "ended with status " + std::to_string(WEXITSTATUS(ended))
                        : "was ended by signal " + std::to_string(signal) + " (" +
                              ::strsignal(signal) + ")") +  // NOLINT(concurrency-mt-unsafe)
                   "\n";
}

// Waits until all have ended, and returns the status of the first one that failed.
int wait_for_all(std::vector<rank_process>& ranks, const awaited_signals& signals) {
  int outcome = 0;
  const auto is_running = [](const rank_process& each) { return each.pid != 0; };
  while (std::ranges::any_of(ranks, is_running)) {
    const int got = signals.wait();
    if (got != SIGCHLD) {
      for (const auto& each : ranks)
        if (is_running(each)) ::kill(each.pid, got);
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

}  // namespace

int execute(const launch_options& options) {
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
  std::vector<std::string> program = options.command;
  std::vector<char*> words;
  words.reserve(program.size() + 1);
  for (auto& word : program) words.push_back(word.data());
  words.push_back(nullptr);
  std::vector<rank_process> ranks;
  const pid_t launcher = ::getpid();
  std::cout.flush();
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    const std::string text = std::to_string(rank);
    const bool is_set = set("RANK", text) && set("LOCAL_RANK", text);
    const pid_t child = is_set ? ::fork() : -1;
    if (child == 0) become(words, signals.before(), launcher);
    if (child < 0) {
      const int code = errno;
      for (const auto& each : ranks) ::kill(each.pid, SIGTERM);
      static_cast<void>(wait_for_all(ranks, signals));
      return refuse("rank " + text +
                    " could not be started: " + std::generic_category().message(code));
    }
    ranks.push_back({.pid = child, .rank = rank});
  }
  return wait_for_all(ranks, signals);
}

}  // namespace verbena::tool
