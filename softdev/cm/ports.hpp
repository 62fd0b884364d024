// SPDX-License-Identifier: MIT
// The ports of a process: the endpoints that hold a number, the sockets by which peers reach them,
// and the endpoint that listens at an address. port_addresses.hpp detects conflicts with endpoints
// of other processes; port_names.hpp contains the names of the sockets.
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

/// The options of an endpoint (rdma_set_option(3)).
struct endpoint_options {
  bool reuse_address = false;
  bool one_family = false;  ///< an IPv6 wildcard does not include IPv4

  bool operator==(const endpoint_options&) const = default;
};

/// The part of an endpoint that concerns its port. Threads: see `ports`.
struct port_holder {
  port_space space = port_space::tcp;
  std::uint64_t number = 0;  ///< of the endpoint
  endpoint_options options;
  address source;

  // Set by `ports`.
  bool holds_port = false;
  bool listening = false;
  published_address published;       ///< while it holds the port
  unique_fd own_socket;              ///< if another process has the name of the port
  std::uint16_t ephemeral_port = 0;  ///< to be given back
};

/// Threads: one thread at a time: the manager holds its lock during each call. Functions that
/// return an int return 0 or an errno.
class ports {
 public:
  /// `watch` outlives it. When a listener ends, at most `max_backlog` connections are rejected.
  ports(const reactor& watch, unsigned max_backlog) noexcept
      : watch_(watch), max_backlog_(max_backlog) {}
  ports(const ports&) = delete;
  ports& operator=(const ports&) = delete;

  /// Binds the endpoint. Errors: those of manager::bind.
  [[nodiscard]] int take(port_holder& holder, const address& source);
  /// Binds the endpoint to a free port. EADDRNOTAVAIL if no port is free.
  [[nodiscard]] int take_any(port_holder& holder, const address& source);
  /// Gives the endpoint an address with a free number, without binding it: peers cannot connect.
  /// EADDRNOTAVAIL if there is no free number.
  [[nodiscard]] int take_number(port_holder& holder, const address& source);
  /// Changes the options. If the endpoint is bound, processes that bind later see the change, as
  /// they do with the kernel; those that are bound already do not matter. Errors: the errno of a
  /// socket; the options are then unchanged.
  [[nodiscard]] int change_options(port_holder& holder, const endpoint_options& next);
  /// Enables peers to connect. Errors: those of manager::listen.
  [[nodiscard]] int listen(port_holder& holder);
  /// Releases the port and the number, and rejects peers that have connected to a listener. Returns
  /// the key of the port if no endpoint holds the port any longer.
  std::optional<std::uint32_t> release(port_holder& holder);

  /// Returns the endpoint that listens at an address of a port, else one at a wildcard, else
  /// nullptr.
  [[nodiscard]] port_holder* listener_for(std::uint32_t key, const address& destination) const;
  /// Accepts the next connection to a port; see accept_peer().
  [[nodiscard]] socket_or_error next_peer(std::uint32_t key) const noexcept;
  /// Stops watching for new connections until `resume`.
  void pause() const noexcept;
  void resume() const noexcept;

  /// Closes all descriptors. For a child of fork.
  void close_all() noexcept;

 private:
  struct port {
    unique_fd socket;  ///< empty if another process has the name; each holder then has a socket
    unique_fd entry;   ///< of port_claim
    bool open = false;
    std::vector<port_holder*> holders;
  };

  template <class Action>
  static void for_each_socket(const port& where, Action action);
  [[nodiscard]] static int conflict_with(const port& where, const port_holder& holder,
                                         const port_wish& wish) noexcept;
  [[nodiscard]] std::vector<const published_address*> own_addresses(
      std::uint32_t key, const published_address& more) const;
  [[nodiscard]] int watch_published(const published_address& which,
                                    std::uint64_t endpoint_number) const noexcept;
  void unwatch_published(const published_address& which) const noexcept;
  [[nodiscard]] int replace_published(port_holder& holder, published_address next) const noexcept;
  [[nodiscard]] int take_alone(std::uint32_t key, port_holder& holder);
  [[nodiscard]] int open_socket(std::uint32_t key, port_holder& holder);
  void reject_waiting_peers(const unique_fd& socket) const;

  const reactor& watch_;
  const unsigned max_backlog_;
  std::map<std::uint32_t, port> ports_;
  ephemeral_ports numbers_;
};

}  // namespace verbena::softdev::cm
