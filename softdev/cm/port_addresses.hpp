// SPDX-License-Identifier: MIT
// The addresses of a port that the processes of one user hold. Each endpoint that is bound to a
// port publishes its address by abstract sockets, which other processes find when they bind.
#pragma once

#include <optional>
#include <span>

#include "softdev/cm/address.hpp"
#include "softdev/cm/frame.hpp"
#include "softdev/ipc/local_socket.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::softdev::cm {

/// The address of a port that an endpoint requests.
struct port_wish {
  port_space space = port_space::tcp;
  address where;
  bool one_family = false;  ///< see endpoint_options; ignored for IPv4
  bool shared = false;      ///< with others that share: RDMA_OPTION_ID_REUSEADDR
};

/// Checks whether two endpoints can be bound to one port. Returns 0, or on a conflict EADDRNOTAVAIL
/// if one of the addresses is a wildcard, EADDRINUSE if they are equal. Same rules as the kernel's
/// cma_check_port.
[[nodiscard]] int conflict_of(const port_wish& one, const port_wish& other) noexcept;

/// A name that this process has taken; processes that look for it connect to its socket.
struct taken_name {
  unique_fd socket;
  std::optional<local_name> name;
};

/// The published address of one endpoint. Threads: one thread at a time.
class published_address {
 public:
  using list = std::span<const published_address* const>;

  /// Publishes the address, then checks whether a process of this user has published an address
  /// that conflicts with it. Ignores the addresses of `own`, which contains this one. On a
  /// conflict, withdraws the address and returns the errno of `conflict_of`. If two processes
  /// publish at the same time, both can fail. If other users hold all names, logs that and returns
  /// 0. Other errors: the errno of a socket.
  [[nodiscard]] int publish(const port_wish& wish, list own);
  /// Publishes the address without looking for conflicts: for an endpoint that holds it. Errors:
  /// the errno of a socket.
  [[nodiscard]] int take_names(const port_wish& wish);
  void withdraw() noexcept;

  /// The sockets. They are readable after another process has looked for the address, until
  /// `close_probes`.
  [[nodiscard]] const unique_fd& exact() const noexcept { return exact_.socket; }
  [[nodiscard]] const unique_fd& kind() const noexcept { return kind_.socket; }
  /// Closes the connections of processes that have looked for the address.
  void close_probes() const noexcept;

  /// Returns whether other processes can find the address.
  [[nodiscard]] bool is_complete() const noexcept { return complete_; }
  [[nodiscard]] bool has(const local_name& name) const noexcept;

 private:
  taken_name exact_;
  taken_name kind_;  ///< empty for wildcards
  bool complete_ = false;
};

/// Takes the name by which peers connect to an address of a port whose first holder is another
/// process.
[[nodiscard]] socket_or_error claim_address(const port_wish& wish) noexcept;
/// Logs which user holds the name of an address that no process of this user has published.
void explain_taken_names(const port_wish& wish);
/// Connects to the process that listens by such a name at the address, or at a wildcard. Errors:
/// those of `connect_to_name`.
[[nodiscard]] socket_or_error connect_to_address(port_space space, const address& to) noexcept;

}  // namespace verbena::softdev::cm
