// SPDX-License-Identifier: MIT
// What the command line asks for.
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
/// Limit of the memory that one transfer registers on each side: window times chunk.
inline constexpr std::size_t largest_buffer = std::size_t{64} << 20;

/// How the data crosses: by RDMA, whose queue pairs meet by the conversation (`rdma`) or in the
/// connection manager (`cm`); plainly by the conversation's socket (`tcp`).
enum class transport : std::uint8_t { rdma = 1, tcp = 2, cm = 3 };

/// As the command line has it.
[[nodiscard]] const char* name_of(transport over);

/// Options of both commands that copy.
struct copy_options {
  verbena::bringup::address server;
  transport over = transport::rdma;
  std::string device;  ///< empty: hardware if there is any, else soft0; over cm what the route says
  std::uint32_t chunk_bytes = 1U << 20;
  std::uint16_t window = 8;  ///< chunks that may be under way at once
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

/// Reads the command line. If no work remains (--help) or the command line is wrong, prints the
/// text that is to be said and ends the program, with status 0 or 2.
[[nodiscard]] command read_command_line(int argc, char** argv);

}  // namespace rcopy
