// SPDX-License-Identifier: MIT
// The names by which processes of one user on this host find each other. A port of a port space is
// an abstract socket, which belongs to a network namespace and ends with its process. Its name
// consists of the user and the port. If another user holds that name, the socket has a random name,
// which the user's other processes read from a table (softdev/ipc/name_table.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "softdev/cm/frame.hpp"
#include "softdev/ipc/local_socket.hpp"

namespace verbena::softdev::cm {

/// A port that this process holds, or an error.
struct port_claim {
  unique_fd socket;
  unique_fd entry;  ///< holds the port's entry in the table, if this user has a table
  int error = 0;    ///< an errno
};
/// Takes a port for this process. EADDRINUSE: a process of this user has the port; or another user
/// has its name and there is no table, and the log names that user. Peers cannot connect before
/// `open_port`.
[[nodiscard]] port_claim claim_port(port_space space, std::uint16_t port);
/// Enables peers to connect. Returns 0 or an errno.
[[nodiscard]] int open_port(int socket) noexcept;
/// Accepts the next connection of this user, and closes connections of other users. The socket is
/// empty if there is no connection, or no descriptor for it (`error` is EMFILE or ENFILE).
[[nodiscard]] socket_or_error accept_peer(int socket) noexcept;
/// Connects to the process that listens at the address. Never blocks. Errors: ECONNREFUSED if no
/// process listens, EAGAIN if its backlog is full, EACCES if it is another user's.
[[nodiscard]] socket_or_error connect_to_port(port_space space, const address& to);

/// Port numbers for endpoints that request no particular number. A process reserves blocks of
/// numbers, each by a name, so that no two processes use the same number. Threads: one thread at a
/// time.
class ephemeral_ports {
 public:
  static constexpr std::uint16_t first = 32768;
  static constexpr std::uint16_t block_ports = 64;
  static constexpr std::uint16_t block_count = 441;
  /// The first blocks are reserved by names that other users can take, the others by entries of the
  /// table.
  static constexpr std::uint16_t public_blocks = 352;

  /// Takes a free number. Returns 0 if no number is free.
  [[nodiscard]] std::uint16_t take();
  /// Frees a number. Ignores numbers outside the blocks of this process.
  void give_back(std::uint16_t port) noexcept;
  /// Closes the descriptors that reserve the blocks.
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
