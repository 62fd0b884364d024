// SPDX-License-Identifier: MIT
// The peer process that tests kill:
// `channel_killed_process operations|messages stream|manager active|passive PORT [stopping]`.
// It connects a channel or a message channel and uses it until it fails. The passive side prints
// its port. With `stopping`, the process stops before it connects and when it is connected, so that
// the tracing process sees the system calls in between.
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "tests/unit/channel/message_traffic.hpp"
#include "tests/unit/channel/mixed_traffic.hpp"

namespace {

using namespace verbena::test;

template <class Side, class Traffic>
int run(const std::string& way_name, const std::string& side_name, const std::string& port,
        bool stopping) {
  const auto way = way_name == "stream" ? connect_method::stream : connect_method::manager;
  const auto until = verbena::deadline::after(std::chrono::seconds(20));
  const auto stop = [&] {
    if (stopping) static_cast<void>(raise(SIGSTOP));
  };
  const auto device = open_tested();
  std::optional<side_listener> place;
  if (side_name == "passive") {
    place.emplace(way);
    std::cout << place->port() << '\n' << std::flush;
  }
  stop();
  auto found = place ? place->accept<Side>(until, until)
                     : connect_to<Side>(way, static_cast<std::uint16_t>(std::stoi(port)), until);
  if (!found) {
    std::cerr << found.error().message() << '\n';
    return 1;
  }
  stop();
  Traffic traffic(*found, static_cast<std::uint32_t>(getpid()));
  while (!traffic.step()) {
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // The process is killed when the test process exits.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc < 5) return 2;
  const bool stopping = argc > 5 && std::string_view(argv[5]) == "stopping";
  const auto use = std::string_view(argv[1]) == "operations"
                       ? run<channel_side, mixed_traffic>
                       : run<message_channel_side, message_traffic>;
  // Not exit(): LeakSanitizer does not work in a traced process.
  _exit(use(argv[2], argv[3], argv[4], stopping));
}
