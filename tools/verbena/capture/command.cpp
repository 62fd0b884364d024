// SPDX-License-Identifier: MIT
#include "tools/verbena/capture/command.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "tools/verbena/capture/blocks.hpp"
#include "tools/verbena/capture/receiver.hpp"
#include "tools/verbena/ended_process.hpp"
#include "tools/verbena/run/command.hpp"
#include "tools/verbena/signals.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::tool {
namespace {

constexpr const char* standard_output = "-";

volatile std::sig_atomic_t child_to_end = 0;

int refuse(const std::string& text) {
  std::cerr << "verbena capture: " << text << '\n';
  return run_status::failed;
}

/// Removes an older capture from `file`. Returns the reason for a failure, or an empty text.
std::string clear(const std::string& file) {
  const unique_fd old(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!old) return errno == ENOENT ? "" : file + ": " + std::generic_category().message(errno);
  std::array<std::byte, 12> beginning{};
  struct stat status{};
  if (::fstat(old.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return file + " is not a regular file";
  const auto count = ::read(old.get(), beginning.data(), beginning.size());
  if (status.st_size > 0 && (count != ssize_t{beginning.size()} || !begins_capture(beginning)))
    return file + " exists and is not a capture: remove it, or choose another file";
  // Processes that still write to the old file keep it open.
  if (::unlink(file.c_str()) != 0) return file + ": " + std::generic_category().message(errno);
  return "";
}

void set(const char* name, const std::string& value) {
  if (::setenv(name, value.c_str(), 1) != 0)  // NOLINT(concurrency-mt-unsafe): one thread
    throw std::system_error(errno, std::generic_category(), name);
}

constexpr std::array forwarded_signals{SIGINT, SIGQUIT, SIGTERM, SIGHUP};

/// The program is in the group of this process: the terminal sends its signals to both.
void forward_to_child(int signal, siginfo_t* info, void* /*context*/) {
  if (child_to_end > 0 && !reached_group(*info)) ::kill(child_to_end, signal);
}

/// Forwards signals to the program. The capture ends after the program.
void let_program_decide() {
  struct sigaction ignored{};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignored, nullptr);
  struct sigaction forwarded{};
  forwarded.sa_sigaction = &forward_to_child;
  forwarded.sa_flags = SA_SIGINFO;
  for (const int signal : forwarded_signals) ::sigaction(signal, &forwarded, nullptr);
}

/// Starts `run` in a child. From its beginning, signals to this process are forwarded to the child.
/// Returns -1 if fork(2) fails.
template <class Run>
pid_t start(Run run) {
  sigset_t forwarded;
  sigset_t before;
  ::sigemptyset(&forwarded);
  for (const int signal : forwarded_signals) ::sigaddset(&forwarded, signal);
  ::sigprocmask(SIG_BLOCK, &forwarded, &before);
  const pid_t child = ::fork();
  if (child > 0) {
    child_to_end = child;
    let_program_decide();
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child == 0) ::_exit(run());
  return child;
}

/// Waits for the program to end, and receives packets meanwhile. Returns the exit status as a shell
/// does.
int wait_for(pid_t child, receiver* packets) {
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(child, &status, packets != nullptr ? WNOHANG : 0);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) return run_status::failed;
    if (packets != nullptr) packets->receive();
  }
  if (packets != nullptr) packets->drain();
  return exit_status_of(status);
}

void report(const std::optional<packet_count>& count, const std::string& where) {
  if (!count) {
    std::cerr << "verbena capture: no packets: the program did not open soft0\n";
    return;
  }
  std::cerr << "verbena capture: " << count->stored << " packets in " << where;
  if (count->lost > 0) std::cerr << ", " << count->lost << " packets are missing";
  std::cerr << '\n';
}

}  // namespace

int execute(const capture_options& options) {
  const bool streamed = options.file == standard_output;
  if (streamed && ::isatty(STDOUT_FILENO) != 0)
    return refuse("the capture is binary: redirect standard output, or choose a file");
  std::unique_ptr<receiver> packets;
  std::string target = options.file;
  if (streamed) {
    packets = std::make_unique<receiver>(STDOUT_FILENO);
    target = packets->path();
  } else {
    target = std::filesystem::absolute(options.file).string();
    if (!options.append)
      if (const auto problem = clear(target); !problem.empty()) return refuse(problem);
  }
  set("VERBENA_SOFTDEV_CAPTURE", target);
  if (options.packet_bytes)
    set("VERBENA_SOFTDEV_CAPTURE_SNAPLEN", std::to_string(*options.packet_bytes));
  std::cerr.flush();
  // If this program was started with SIGCHLD ignored, the status of the child would be lost.
  ::signal(SIGCHLD, SIG_DFL);
  const pid_t child = start([&]() -> int {
    // Standard output is for packets only.
    if (streamed && ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return run_status::failed;
    return execute(options.run);
  });
  if (child < 0) return refuse("fork: " + std::generic_category().message(errno));
  const int status = wait_for(child, packets.get());
  report(streamed ? std::optional(packets->count()) : count_packets_of(target),
         streamed ? "the stream" : options.file);
  if (!streamed || packets->failure() == 0) return status;
  const int failed =
      refuse("the packets could not be written to standard output: " +
             std::generic_category().message(packets->failure()) +
             (packets->failure() == EPIPE ? "; its reader ended before the program" : ""));
  return status != 0 ? status : failed;
}

}  // namespace verbena::tool
