// SPDX-License-Identifier: MIT
// The UDP port of RoCE v2 in a network namespace, which the processes of a user share. All senders
// use the same destination port, and only one socket receives from it: the socket of the owner. The
// owner forwards datagrams by the process slot in their queue pair number. When the owner ends,
// another process becomes the owner. Clients get a descriptor of this socket, so that datagrams
// that arrive in the meantime are not lost.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "softdev/core/types.hpp"
#include "softdev/ipc/local_socket.hpp"
#include "softdev/wire/socket/udp_socket.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev::wire {

/// The header of forwarded datagrams of one sender. Both processes use the same or compatible
/// builds.
struct forwarded_header {
  network_address source{};
  network_address destination{};
  std::uint16_t source_port = 0;
  std::uint16_t datagram_bytes = 0;  ///< of each datagram except the last; 0: there is one
  std::uint32_t interface = 0;
  std::uint8_t traffic_class = 0;
  std::array<std::uint8_t, 7> unused{};
};
static_assert(sizeof(forwarded_header) == 48);

/// The role of a process in sharing the port. Threads: one thread at a time.
class port_share {
 public:
  /// How the process receives datagrams.
  enum class role : std::uint8_t {
    none,    ///< not at all: the owner has ended, or has not answered yet
    owner,   ///< from its UDP socket
    client,  ///< from the owner, which forwards them
  };

  /// Creates the objects that do not depend on the role. `key`: the value of wire_key::fingerprint.
  /// Processes with different keys do not share the port. Errors: the errno of epoll_create1(2) or
  /// epoll_ctl(2).
  [[nodiscard]] static result<port_share> open(std::uint16_t port, std::uint32_t process_slot,
                                               std::uint64_t key = 0);

  /// Binds the port, or registers with its owner. Does not block. Returns `none` if the owner has
  /// not answered, or if a process is just becoming the owner or ending: call again soon. Errors:
  /// EADDRINUSE if another program, another user or a process with another key uses the port;
  /// ENETUNREACH if the network namespace is not that of the first role; the errno of another call.
  /// Allocates.
  [[nodiscard]] result<role> join();
  /// Returns whether join() failed because another socket is bound to the port. After the end of an
  /// owner, it can be the socket of its clients, until one of them is the new owner.
  [[nodiscard]] static bool is_bound_elsewhere(const error& why) noexcept;
  /// Returns the process that was asked for a registration and has not answered, for example
  /// because it is stopped. Returns 0 if there is none, or if it is outside the PID namespace of
  /// this process.
  [[nodiscard]] pid_t asked_process() const noexcept;
  [[nodiscard]] role now() const noexcept { return role_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return own_.port; }

  /// Returns the descriptor from which datagrams are received; -1 without a role.
  [[nodiscard]] int source() const noexcept {
    return role_ == role::owner ? socket_.fd() : owner_.get();
  }
  /// Gives up the role, because the owner has ended.
  void leave() noexcept;
  /// Gives up the role and the UDP socket, so that another process can become the owner.
  void give_up() noexcept {
    leave();
    socket_.close();
  }

  /// Accepts the registrations of processes and removes processes that have ended. Called
  /// regularly. Makes one system call if there are no events. Allocates for a new process.
  void serve(time_ns now) noexcept;
  /// Returns when to call `serve` even if `fd` is not readable; `never` if `fd` becomes readable.
  /// After events, and while connections cannot be accepted, `fd` does not report further events.
  /// Otherwise a process that waits for `fd` would not sleep.
  [[nodiscard]] time_ns serve_at() const noexcept { return serve_at_; }
  /// The result of forwarding datagrams.
  enum class forwarded : std::uint8_t {
    given,
    unknown,  ///< no process has the slot
    full,     ///< the receive queue of the process is full
  };
  /// Forwards datagrams to the process with this slot. Precondition: this process is the owner.
  /// Does not block.
  [[nodiscard]] forwarded forward(std::uint32_t slot, const forwarded_header& from,
                                  std::span<const std::byte> datagrams) noexcept;
  /// Forwards a datagram to all clients. Returns the number of processes that received it.
  /// Precondition: this process is the owner. Does not block.
  std::size_t forward_to_all(const forwarded_header& from,
                             std::span<const std::byte> datagram) noexcept;
  [[nodiscard]] std::size_t clients() const noexcept { return by_slot_.size(); }

  /// Returns an epoll descriptor. It is readable if `serve` has work to do, or, while armed, if a
  /// datagram is available.
  [[nodiscard]] int fd() const noexcept { return gate_.get(); }
  /// Sets whether available datagrams make `fd` readable. Makes one system call.
  void arm(bool wanted) noexcept;

  /// Called in the child of a fork: closes the sockets of this process without freeing memory.
  void close_own() noexcept;
  /// Called in the child of a fork: closes the connections of the clients without freeing memory.
  /// Precondition: at the time of the fork, no thread of the parent was in another function.
  void close_clients() noexcept;

 private:
  /// Where the processes that share the port find their owner.
  struct meeting_place {
    /// The place of the current user, in the network namespace of this thread.
    explicit meeting_place(std::uint16_t port) noexcept;

    local_name name;        ///< of the owner's listener
    std::uint64_t network;  ///< identifies the network namespace; 0: unknown
  };
  port_share(unique_fd gate, unique_fd events, std::uint16_t port, std::uint32_t process_slot,
             std::uint64_t key) noexcept;
  [[nodiscard]] result<void> become_owner(unique_fd listener);
  role begin(role next, const meeting_place& at) noexcept;
  [[nodiscard]] result<void> open_socket();
  [[nodiscard]] result<role> register_at(unique_fd owner, const meeting_place& at);
  [[nodiscard]] result<role> read_answer();
  void watch_source() noexcept;
  void pause_until(time_ns when) noexcept;
  [[nodiscard]] bool admit() noexcept;
  [[nodiscard]] bool admit_one(unique_fd socket) noexcept;
  void read_registration(std::uint64_t which) noexcept;
  void forget(std::uint64_t which) noexcept;

  struct own_values {
    std::uint16_t port;
    std::uint32_t slot;
    std::uint64_t key;                   ///< the fingerprint of the key; 0: no key
    std::optional<meeting_place> place;  ///< since the first role
  };
  struct client {
    unique_fd socket;
    std::uint32_t slot = 0;
    bool registered = false;
  };

  unique_fd gate_;
  unique_fd events_;  ///< epoll of the listener and the clients
  own_values own_;
  role role_ = role::none;
  /// The UDP socket. A client has it too, but does not receive from it before it becomes the owner.
  udp_socket socket_;
  unique_fd listener_;
  time_ns serve_at_ = never;
  bool accept_failed_ = false;  ///< connections could not be accepted
  unique_fd asked_;             ///< the connection to an owner that has not answered
  /// The place of the last request to an owner. The user may change before the answer.
  std::optional<meeting_place> asked_at_;
  unique_fd owner_;  ///< of a client: the connection to the owner
  std::uint64_t admitted_ = 0;
  std::unordered_map<std::uint64_t, client> clients_;  ///< by the number of the connection
  std::unordered_map<std::uint32_t, std::uint64_t> by_slot_;
};

}  // namespace verbena::softdev::wire
