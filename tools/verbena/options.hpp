// SPDX-License-Identifier: MIT
// What the user asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace verbena::tool {

/// `verbena devinfo [DEVICE] [--port N] [--json]`.
struct devinfo_options {
  std::string device;                 ///< empty: all devices
  std::optional<std::uint32_t> port;  ///< nothing: all ports
  bool json = false;
};

/// What has to work for `verbena doctor` to be content.
enum class wanted_device : std::uint8_t {
  any,       ///< soft0 will do
  kernel,    ///< a device of the kernel's: hardware, rxe or siw
  hardware,  ///< an adapter
};

/// `verbena doctor [--require KIND] [--endpoint HEX] [--root FOLDER] [--json]`.
struct doctor_options {
  wanted_device require = wanted_device::any;
  std::string endpoint;    ///< the peer's, in base 16; empty: none
  std::string root = "/";  ///< the folder that is taken for /
  bool json = false;
};

/// How a program is brought to the software device.
enum class way : std::uint8_t {
  automatic,  ///< as the program needs it
  preload,    ///< LD_PRELOAD of libverbena-preload.so, in front of the libibverbs it links
  dropin,     ///< our libibverbs.so.1 instead of the system's, for whoever loads one
};

/// `verbena run [-v] [--dropin | --preload] -- PROGRAM ARGS...`.
struct run_options {
  std::vector<std::string> command;  ///< the program and its arguments, at least one word
  verbena::tool::way way = way::automatic;
  bool verbose = false;
};

using command = std::variant<devinfo_options, doctor_options, run_options>;

/// How `verbena run` ends when the program was not started; env(1) and timeout(1) do the same.
struct run_status {
  static constexpr int failed = 125;          ///< `verbena run` itself failed, or was misused
  static constexpr int cannot_execute = 126;  ///< the program is there and cannot be run
  static constexpr int not_found = 127;       ///< there is no such program
};

/// Reads the command line. Prints help, or what is wrong with it, and exits where that is asked
/// for.
[[nodiscard]] command read_command_line(int argc, char** argv);

}  // namespace verbena::tool
