// SPDX-License-Identifier: MIT
// rcopy: copies files between two processes by RDMA. `rcopy --help` says how.
#include <csignal>
#include <exception>
#include <iostream>
#include <variant>

#include "examples/rcopy/client.hpp"
#include "examples/rcopy/options.hpp"
#include "examples/rcopy/server.hpp"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error value
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const auto asked = rcopy::read_command_line(argc, argv);
    return std::visit([](const auto& options) { return rcopy::run(options); }, asked);
  } catch (const std::exception& problem) {
    std::cerr << "rcopy: " << problem.what() << '\n';
    return 1;
  }
}
