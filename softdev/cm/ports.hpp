// SPDX-License-Identifier: MIT
// The ports of a process: which endpoints hold a number, by which sockets peers reach them, and
// which endpoint listens at an address. Who conflicts with endpoints of other processes is decided
// in port_addresses.hpp; the names of the sockets are in port_names.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "softdev/cm/manager_options.hpp"
#include "softdev/cm/port_addresses.hpp"
#include "softdev/cm/port_names.hpp"
#include "softdev/ipc/reactor.hpp"

namespace verbena::softdev::cm {

/// What an endpoint is asked for besides its addresses.
struct endpoint_options {
  bool reuse_address = false;
  bool one_family = false;  ///< an IPv6 wildcard does not stand for IPv4, too
};

/// The part of an endpoint that concerns its port. Threads: as `ports`.
struct port_holder {
  port_space space = port_space::tcp;
  std::uint64_t number = 0;  ///< of the endpoint
  endpoint_options options;
  address source;

  // Set by `ports`.
  bool holds_port = false;
  bool listening = false;
  published_address published;       ///< while it holds the port
  unique_fd own_socket;              ///< if another process has the number of the port
  std::uint16_t ephemeral_port = 0;  ///< to be given back
};

/// Threads: thread-safe by its manager, which calls it with its lock held. Functions that return an
/// int give 0 or an errno.
class ports {
 public:
  /// `watch` outlives it. `max_backlog` is the number of connections that are refused when a
  /// listener ends.
  ports(const reactor& watch, unsigned max_backlog) noexcept
      : watch_(watch), max_backlog_(max_backlog) {}
  ports(const ports&) = delete;
  ports& operator=(const ports&) = delete;

  /// Binds the endpoint; errors as manager::bind.
  [[nodiscard]] int take(port_holder& which, const address& source);
  /// Binds it to a free port: EADDRNOTAVAIL if there is none.
  [[nodiscard]] int take_any(port_holder& which, const address& source);
  /// Gives it a free number at an address, at which nobody can connect to it. EADDRNOTAVAIL if
  /// there is none.
  [[nodiscard]] int take_number(port_holder& which, const address& source);
  /// Lets peers connect; errors as manager::listen.
  [[nodiscard]] int listen(port_holder& which);
  /// Ends all of that; peers that have connected to a listener are refused. Returns the key of the
  /// port if no endpoint holds it any more.
  std::optional<std::uint32_t> release(port_holder& which);

  /// The endpoint that listens at an address of a port, else at a wildcard, or nullptr.
  [[nodiscard]] port_holder* listener_for(std::uint32_t key, const address& destination) const;
  /// The next connection to a port: accept_peer().
  [[nodiscard]] socket_or_error next_peer(std::uint32_t key) const noexcept;
  /// Leaves new connections where they are, until `resume`.
  void pause() const noexcept;
  void resume() const noexcept;

  /// Closes all descriptors. For a child of fork.
  void close_all() noexcept;

 private:
  struct port {
    unique_fd socket;  ///< empty if another process has the number: its holders have sockets then
    unique_fd entry;   ///< of port_claim
    bool open = false;
    std::vector<port_holder*> holders;
  };

  template <class Action>
  static void for_each_socket(const port& where, Action action);
  [[nodiscard]] static int conflict_with(const port& where, const port_holder& which,
                                         const port_wish& wish) noexcept;
  [[nodiscard]] std::vector<const published_address*> own_addresses(
      std::uint32_t key, const published_address& more) const;
  [[nodiscard]] int watch_published(const port_holder& which) const noexcept;
  void unwatch_published(const port_holder& which) const noexcept;
  [[nodiscard]] int take_alone(std::uint32_t key, port_holder& which);
  [[nodiscard]] int open_socket(std::uint32_t key, port_holder& which);
  void turn_away(const unique_fd& socket) const;

  const reactor& watch_;
  const unsigned max_backlog_;
  std::map<std::uint32_t, port> ports_;
  ephemeral_ports numbers_;
};

}  // namespace verbena::softdev::cm
