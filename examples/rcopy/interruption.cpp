// SPDX-License-Identifier: MIT
#include "examples/rcopy/interruption.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>

namespace rcopy {
namespace {

constexpr std::array<int, 2> signals = {SIGINT, SIGTERM};

// Changed only while no handler is installed. A signal handler can access only global variables.
volatile int event = -1;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void write_event(int /*signal*/) {
  const int saved = errno;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(event, &one, sizeof one));
  errno = saved;
}

}  // namespace

interruption::interruption() {
  event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) return;  // the signals keep their default action, which ends the program
  for (const int signal : signals) {
    struct sigaction action{};
    action.sa_handler = write_event;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &action, nullptr);
  }
}

interruption::~interruption() {
  for (const int signal : signals) std::signal(signal, SIG_DFL);
  if (event >= 0) ::close(event);
  event = -1;
}

int interruption::fd() const noexcept { return event; }

}  // namespace rcopy
