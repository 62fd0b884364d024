// SPDX-License-Identifier: MIT
// The options of the command line.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "verbena/bringup/address.hpp"

namespace rcopy {

inline constexpr std::uint16_t default_port = 7470;
inline constexpr std::uint32_t smallest_chunk = 4096;
inline constexpr std::uint32_t largest_chunk = 16U << 20;
inline constexpr std::uint16_t largest_window = 64;
/// Limit of the memory that each side registers for one copy: window times chunk size.
inline constexpr std::size_t largest_buffer = std::size_t{64} << 20;

/// The transport of the data. `rdma`: RDMA, connected by a handshake on the bring-up stream. `cm`:
/// RDMA, connected by the connection manager. `tcp`: the socket of the bring-up stream.
enum class transport : std::uint8_t { rdma = 1, tcp = 2, cm = 3 };

/// Returns the name of the transport on the command line.
[[nodiscard]] const char* name_of(transport over);

/// Options of `put` and `get`.
struct copy_options {
  verbena::bringup::address server;
  transport over = transport::rdma;
  std::string device;  ///< empty: an adapter if present, else soft0; with cm: any
  std::uint32_t chunk_bytes = 1U << 20;
  std::uint16_t window = 8;  ///< largest number of chunks in flight
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
  bool quiet = false;
  bool json = false;
};

struct put_options {
  copy_options copy;
  std::string file;
  std::string name;  ///< on the server; empty: the last part of `file`
};

struct get_options {
  copy_options copy;
  std::string name;
  std::string output;  ///< empty: `name` in the current directory
};

struct serve_options {
  std::string directory;
  verbena::bringup::address at{.host = "127.0.0.1", .port = default_port};
  std::string device;
  std::size_t max_clients = 8;
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
  bool quiet = false;
};

using command = std::variant<serve_options, put_options, get_options>;

/// Parses the command line. With --help, prints the help and ends the program with status 0. If the
/// command line is invalid, prints an error and ends the program with status 2.
[[nodiscard]] command read_command_line(int argc, char** argv);

}  // namespace rcopy
