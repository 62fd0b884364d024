// SPDX-License-Identifier: MIT
// The UDP port of RoCE v2 in a network namespace, which the processes of a user share. Every sender
// uses the same port, whatever process it means, and one socket has it: that of the owner. The
// owner forwards datagrams by the process slot in their queue pair number. When it ends, another
// process becomes the owner.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "softdev/core/types.hpp"
#include "softdev/wire/socket/udp_socket.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev::wire {

/// The first bytes of forwarded datagrams of one sender. Both processes are of one build or of
/// compatible ones.
struct forwarded_header {
  network_address source{};
  network_address destination{};
  std::uint16_t source_port = 0;
  std::uint16_t datagram_bytes = 0;  ///< of each of several ones, except for the last; 0: it is one
  std::uint32_t interface = 0;
  std::uint8_t traffic_class = 0;
  std::array<std::uint8_t, 7> unused{};
};
static_assert(sizeof(forwarded_header) == 48);

/// A process's part in the port. Threads: one thread at a time.
class port_share {
 public:
  /// How the process receives.
  enum class role : std::uint8_t {
    none,    ///< not at all: the owner ended, or was not asked yet
    owner,   ///< from its UDP socket
    client,  ///< what the owner forwards
  };

  /// Opens what does not depend on the role. `key`: of wire_key::fingerprint; processes with
  /// different ones do not share the port. Errors: the errno of epoll_create1(2).
  [[nodiscard]] static result<port_share> open(std::uint16_t port, std::uint32_t process_slot,
                                               std::uint64_t key = 0);

  /// Takes the port, or registers at its owner. Does not block. Returns `none` if the owner has not
  /// answered, or is just beginning or ending: try again soon. Errors: EADDRINUSE if another
  /// program, another user or a process with another key has the port; the errno of another call.
  /// Allocates.
  [[nodiscard]] result<role> join();
  /// The process that was asked for a registration and has not answered: a stopped one does not. 0
  /// if no process was asked, or if it is outside the pid namespace of this process.
  [[nodiscard]] pid_t asked_process() const noexcept;
  [[nodiscard]] role now() const noexcept { return role_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  /// Where datagrams come from; -1 without a role.
  [[nodiscard]] int source() const noexcept {
    return role_ == role::owner ? socket_.fd() : owner_.get();
  }
  /// The owner ended: the process has no role now.
  void leave() noexcept;

  /// Admits processes and forgets those that ended. To be called once in a while; one system call
  /// if nothing happened. Allocates for a new process.
  void serve(time_ns now) noexcept;
  /// When to call `serve` although `fd` is not readable; `never` if it would become readable. After
  /// events, and while processes cannot be admitted, `fd` does not report more of them: a process
  /// that waits for it would not sleep.
  [[nodiscard]] time_ns serve_at() const noexcept { return serve_at_; }
  /// What became of datagrams for another process.
  enum class forwarded : std::uint8_t {
    given,
    unknown,  ///< no process has the slot
    full,     ///< the process receives too slowly
  };
  /// Passes datagrams to the process with the slot, from the owner. Does not block.
  [[nodiscard]] forwarded forward(std::uint32_t slot, const forwarded_header& from,
                                  std::span<const std::byte> datagrams) noexcept;
  /// Passes a datagram to all other processes, from the owner. Returns how many took it. Does not
  /// block.
  std::size_t forward_to_all(const forwarded_header& from,
                             std::span<const std::byte> datagram) noexcept;
  [[nodiscard]] std::size_t clients() const noexcept { return by_slot_.size(); }

  /// Readable when there is something to serve, or, if armed, a datagram (an epoll descriptor).
  [[nodiscard]] int fd() const noexcept { return gate_.get(); }
  /// Has `fd` be readable while there are datagrams, or no longer. One system call.
  void arm(bool wanted) noexcept;

  /// In a child of fork: closes the own sockets without freeing memory.
  void close_own() noexcept;
  /// In a child of fork: closes the connections of the clients without freeing memory.
  /// Precondition: no thread of the parent was inside another function at the time of the fork.
  void close_clients() noexcept;

 private:
  port_share(unique_fd gate, unique_fd events, std::uint16_t port, std::uint32_t process_slot,
             std::uint64_t key) noexcept;
  [[nodiscard]] result<role> become_owner(unique_fd listener);
  [[nodiscard]] result<role> register_at(unique_fd owner);
  [[nodiscard]] result<role> read_answer();
  void watch_source() noexcept;
  void pause_until(time_ns when) noexcept;
  [[nodiscard]] bool admit() noexcept;
  [[nodiscard]] bool admit_one(unique_fd socket) noexcept;
  void read_registration(std::uint64_t which) noexcept;
  void forget(std::uint64_t which) noexcept;

  struct client {
    unique_fd socket;
    std::uint32_t slot = 0;
    bool registered = false;
  };

  unique_fd gate_;
  unique_fd events_;  ///< the listener and the clients
  std::uint16_t port_;
  std::uint32_t slot_;
  std::uint64_t key_;  ///< its fingerprint; 0: none
  role role_ = role::none;
  udp_socket socket_;  ///< of the owner
  unique_fd listener_;
  time_ns serve_at_ = never;
  bool accept_failed_ = false;  ///< connections could not be accepted
  unique_fd asked_;             ///< the connection to an owner that has not answered
  unique_fd owner_;             ///< of a client: the connection to the owner
  std::uint64_t admitted_ = 0;
  std::unordered_map<std::uint64_t, client> clients_;  ///< by the number of their admission
  std::unordered_map<std::uint32_t, std::uint64_t> by_slot_;
};

}  // namespace verbena::softdev::wire
