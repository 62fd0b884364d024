// SPDX-License-Identifier: MIT
// Connections to a port whose first message has not arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "softdev/cm/frame.hpp"
#include "softdev/cm/manager_options.hpp"
#include "softdev/cm/ports.hpp"
#include "softdev/ipc/reactor.hpp"

namespace verbena::softdev::cm {

/// Receives the requests of incoming connections. Threads: one thread at a time, with the lock of
/// the manager held.
class request_observer {
 public:
  /// Called when a peer has sent its first frame over a connection to the port `port_key`. The
  /// socket is not watched.
  virtual void request_arrived(unique_fd from, std::uint32_t port_key, const frame& request) = 0;

 protected:
  ~request_observer() = default;
};

/// Receives the requests of programs on other hosts. Threads: one thread at a time.
class remote_request_observer {
 public:
  /// Called when the process that receives messages of other hosts passes on a request for the port
  /// `port_key`, or a rejection that ends a request.
  virtual void remote_request_arrived(std::uint32_t port_key, const frame& request) = 0;

 protected:
  ~remote_request_observer() = default;
};

/// Threads: one thread at a time: the manager holds its lock during each call.
class incoming_connections {
 public:
  /// All arguments outlive it.
  incoming_connections(const manager_options& options, const reactor& watch, const ports& at,
                       request_observer& observer,
                       remote_request_observer& remote_observer) noexcept
      : options_(options),
        watch_(watch),
        ports_(at),
        observer_(observer),
        remote_observer_(remote_observer) {}
  incoming_connections(const incoming_connections&) = delete;
  incoming_connections& operator=(const incoming_connections&) = delete;

  /// Accepts the peers that have connected to a port. If descriptors or memory are exhausted,
  /// pauses all ports.
  void accept(std::uint32_t port_key, time_point now);
  /// Reads the first frame of an incoming connection.
  void read(std::uint64_t number);
  /// Drops connections whose first frame is overdue; ends a pause of the ports.
  void expire(time_point now);
  [[nodiscard]] time_point next_deadline() const noexcept;
  /// Drops the incoming connections of a port that no endpoint holds.
  void drop(std::uint32_t port_key);

  /// Closes all descriptors. For a child of fork.
  void close_all() noexcept;

 private:
  struct incoming_connection {
    unique_fd socket;
    std::uint32_t port_key = 0;
    time_point give_up_at;
  };

  const manager_options& options_;
  const reactor& watch_;
  const ports& ports_;
  request_observer& observer_;
  remote_request_observer& remote_observer_;
  std::map<std::uint64_t, incoming_connection> incoming_;
  std::uint64_t next_number_ = 1;
  time_point resume_accepting_at_ = time_point::max();
};

}  // namespace verbena::softdev::cm
