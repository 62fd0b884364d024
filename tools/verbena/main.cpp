// SPDX-License-Identifier: MIT
// The command line tool: shows RDMA devices, diagnoses RDMA on a host, runs programs on the
// software device, starts groups of ranks and describes error codes of the device. `verbena --help`
// describes its commands.
#include <exception>
#include <iostream>
#include <variant>

#include "tools/verbena/capture/command.hpp"
#include "tools/verbena/devinfo/command.hpp"
#include "tools/verbena/doctor/command.hpp"
#include "tools/verbena/explain/command.hpp"
#include "tools/verbena/launch/agent.hpp"
#include "tools/verbena/launch/command.hpp"
#include "tools/verbena/options.hpp"
#include "tools/verbena/run/command.hpp"
#include "tools/verbena/store/command.hpp"

int main(int argc, char** argv) {
  try {
    const auto asked = verbena::tool::read_command_line(argc, argv);
    return std::visit([](const auto& options) { return verbena::tool::execute(options); }, asked);
  } catch (const std::exception& problem) {
    std::cerr << "verbena: " << problem.what() << '\n';
    return 1;
  }
}
