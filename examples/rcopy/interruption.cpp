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

// Written before the handler is installed and after it is removed; a handler has no other way to
// reach anything.
volatile int event = -1;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void remember(int /*signal*/) {
  const int saved = errno;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(event, &one, sizeof one));
  errno = saved;
}

}  // namespace

interruption::interruption() {
  event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) return;  // then the signals end the program at once, as they do by default
  for (const int signal : signals) {
    struct sigaction action{};
    action.sa_handler = remember;
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
