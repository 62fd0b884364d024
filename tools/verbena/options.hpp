// SPDX-License-Identifier: MIT
// The command line of the tool.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace verbena::tool {

/// `verbena devinfo [DEVICE] [--port N] [--counters [--prometheus]] [--json]`.
struct devinfo_options {
  std::string device;                 ///< empty: all devices
  std::optional<std::uint32_t> port;  ///< nullopt: all ports
  bool counters = false;              ///< instead of the attributes
  bool prometheus = false;            ///< counters in the text format of Prometheus
  bool json = false;
};

/// The kind of device that `verbena doctor` requires.
enum class wanted_device : std::uint8_t {
  any,       ///< any device, soft0 included
  kernel,    ///< a device of the kernel: hardware, rxe or siw
  hardware,  ///< an adapter
};

/// `verbena doctor [--require KIND] [--endpoint HEX] [--root FOLDER] [--json]`.
struct doctor_options {
  wanted_device require = wanted_device::any;
  std::string endpoint;    ///< the endpoint of the peer in hexadecimal; empty: none
  std::string root = "/";  ///< the folder that is read instead of /
  bool json = false;
};

/// The method by which a program uses the software device.
enum class way : std::uint8_t {
  automatic,  ///< depends on the libraries of the program
  preload,    ///< LD_PRELOAD of libverbena-preload.so, before the libibverbs that it links
  dropin,     ///< the libibverbs.so.1 of this project instead of that of the system
};

/// `verbena run [-v] [--dropin | --preload] -- PROGRAM ARGS...`.
struct run_options {
  std::vector<std::string> command;  ///< the program and its arguments; not empty
  verbena::tool::way way = way::automatic;
  bool verbose = false;
};

/// `verbena capture [-w FILE] [--append] [-s N] [run options] -- PROGRAM ARGS...`.
struct capture_options {
  run_options run;
  std::string file = "soft0.pcapng";  ///< "-": standard output
  bool append = false;
  std::optional<std::uint32_t> packet_bytes;  ///< stored of each packet; nullopt: all
};

/// `verbena explain [CODE] [--json]`.
struct explain_options {
  std::optional<std::uint32_t> code;  ///< nullopt: all codes
  bool json = false;
};

/// `verbena launch -n N -- PROGRAM ARGS...`, `verbena launch --hosts FILE -- PROGRAM ARGS...`.
struct launch_options {
  std::uint32_t ranks = 0;           ///< 0: one for each slot of the hosts
  std::vector<std::string> command;  ///< the program and its arguments; not empty
  std::string hosts;                 ///< a file; empty: all ranks on this host
  std::string ssh = "ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15";
  std::string address;  ///< of this host, for the ranks; empty: the client address of ssh
  std::string agent;    ///< `verbena` on the hosts; empty: that of this host, or by PATH
  std::vector<std::string> variables;  ///< NAME or NAME=VALUE for the ranks
};

/// `verbena launch-agent`, which `verbena launch` starts on other hosts; the help does not list it.
struct agent_options {};

/// `verbena store [--listen HOST:PORT]`.
struct store_options {
  std::string listen = "127.0.0.1:29500";
};

using command = std::variant<devinfo_options, doctor_options, run_options, capture_options,
                             explain_options, launch_options, agent_options, store_options>;

/// Exit statuses of `verbena run` and `verbena launch` if the program was not started, as of env(1)
/// and timeout(1).
struct run_status {
  static constexpr int failed = 125;          ///< the command failed, or has invalid arguments
  static constexpr int cannot_execute = 126;  ///< the program exists but cannot be executed
  static constexpr int not_found = 127;       ///< the program was not found
};

/// Parses the command line. Prints the help, or the error in the arguments, and exits.
[[nodiscard]] command read_command_line(int argc, char** argv);

}  // namespace verbena::tool
