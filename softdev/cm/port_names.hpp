// SPDX-License-Identifier: MIT
// The names by which processes of one user on this host find each other: a port of a port space is
// an abstract socket, which belongs to a network namespace and goes with its process. Its name is
// made of the user and the port. If another user holds that name, the socket has a random name that
// the user's other processes read from a table (softdev/ipc/name_table.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "softdev/cm/frame.hpp"
#include "softdev/ipc/local_socket.hpp"

namespace verbena::softdev::cm {

/// A port that this process has, or why it has none.
struct port_claim {
  unique_fd socket;
  unique_fd entry;  ///< holds the port's entry in the table, if this user has a table
  int error = 0;    ///< an errno
};
/// Takes a port for this process: EADDRINUSE when a process of this user has it, or one of another
/// user, and there is no table; the log names that user. Nobody can connect before `open_port`.
[[nodiscard]] port_claim claim_port(port_space space, std::uint16_t port);
/// From now on peers can connect. 0 or an errno.
[[nodiscard]] int open_port(int socket) noexcept;
/// The next connection of this user; connections of other users are closed. Empty when there is
/// none, or no descriptor for it (`error` is EMFILE or ENFILE then).
[[nodiscard]] socket_or_error accept_peer(int socket) noexcept;
/// Connects to the process that listens at the address. Never blocks: ECONNREFUSED when nobody
/// does, EAGAIN when it has too much to do, EACCES when it is another user's.
[[nodiscard]] socket_or_error connect_to_port(port_space space, const address& to);

/// Numbers for ports that nobody asked for by number. They come in blocks, each held by one process
/// by a name, so that no two processes use one number. One thread at a time.
class ephemeral_ports {
 public:
  static constexpr std::uint16_t first = 32768;
  static constexpr std::uint16_t block_ports = 64;
  static constexpr std::uint16_t block_count = 441;
  /// The first blocks are held by names that other users can take, the others in the table.
  static constexpr std::uint16_t public_blocks = 352;

  /// A free number, or 0 when there is none.
  [[nodiscard]] std::uint16_t take();
  /// The number is free again; others are ignored.
  void give_back(std::uint16_t port) noexcept;
  /// Closes what holds the blocks.
  void clear() noexcept { blocks_.clear(); }

 private:
  struct block {
    unique_fd holder;
    std::uint16_t number = 0;
    std::uint64_t taken = 0;
    std::uint16_t next = 0;
  };
  static_assert(block_ports == 64);
  [[nodiscard]] static std::uint16_t take_from(block& from) noexcept;
  [[nodiscard]] static block free_block();
  std::vector<block> blocks_;
};

}  // namespace verbena::softdev::cm
