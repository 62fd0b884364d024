// SPDX-License-Identifier: MIT
// rcopy: copies files between two processes by RDMA. `rcopy --help` describes the commands.
#include <csignal>
#include <exception>
#include <iostream>
#include <variant>

#include "examples/rcopy/client.hpp"
#include "examples/rcopy/options.hpp"
#include "examples/rcopy/server.hpp"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // write(2) then returns EFBIG at the limit of the file size
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const auto command = rcopy::read_command_line(argc, argv);
    return std::visit([](const auto& options) { return rcopy::run(options); }, command);
  } catch (const std::exception& problem) {
    std::cerr << "rcopy: " << problem.what() << '\n';
    return 1;
  }
}
