// SPDX-License-Identifier: MIT
#include "tools/verbena/launch/spawn.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "tools/verbena/options.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::tool {
namespace {

// Runs in the child, where mutexes of other threads may be locked forever. Calls only
// async-signal-safe functions.
[[noreturn]] void become(char* const* words, const spawn_options& options, pid_t parent,
                         int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(run_status::failed);
  bool is_ready = !options.has_own_group || ::setpgid(0, 0) == 0;
  for (int each = 0; each < 3; ++each) {
    const int from = options.streams[static_cast<std::size_t>(each)];
    if (from >= 0) is_ready = is_ready && ::dup2(from, each) == each;
  }
  if (is_ready) {
    ::sigprocmask(SIG_SETMASK, &options.mask, nullptr);
    ::execvp(*words, words);
  }
  const int code = errno;
  static_cast<void>(::write(report, &code, sizeof code));
  ::_exit(run_status::failed);
}

}  // namespace

spawned spawn(const std::vector<std::string>& program, const spawn_options& options) {
  std::vector<std::string> copy = program;
  std::vector<char*> words;
  words.reserve(copy.size() + 1);
  for (auto& word : copy) words.push_back(word.data());
  words.push_back(nullptr);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {.code = errno, .status = run_status::failed};
  const unique_fd report(ends[0]);
  unique_fd reporter(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return {.code = errno, .status = run_status::failed};
  if (child == 0) become(words.data(), options, parent, reporter.get());
  reporter.reset();
  int code = 0;
  ssize_t count = 0;
  do {
    count = ::read(report.get(), &code, sizeof code);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof code)) return {.pid = child};
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {.code = code,
          .status = code == ENOENT ? run_status::not_found : run_status::cannot_execute};
}

std::string describe_end(int ended) {
  if (WIFEXITED(ended)) return "ended with status " + std::to_string(WEXITSTATUS(ended));
  const int signal = WTERMSIG(ended);
  return "was ended by signal " + std::to_string(signal) + " (" + ::strsignal(signal) +
         ")";  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace verbena::tool
