// SPDX-License-Identifier: MIT
// Looking up hosts and services for the connection manager.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/cm/port_space.hpp"
#include "verbena/cm/socket_address.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// What to look up. Source: rdma_getaddrinfo(3). Threads: immutable value.
struct address_query {
  std::string node;                    ///< a name or an address; empty for any address of this host
  std::string service;                 ///< a port number or a name of services(5); empty for none
  port_space space = port_space::tcp;  ///< the space that the addresses are for
  bool passive = false;                ///< whether to listen there: the answer is in `source`
  bool numeric_host = false;       ///< whether `node` must be an address: no name server is asked
  bool no_route = false;           ///< whether to leave out the route
  std::optional<int> family = {};  ///< AF_INET, AF_INET6 or AF_IB alone
  std::optional<socket_address> source = {};  ///< the address of this host to use
};

/// One way to reach it. Threads: immutable value.
struct address_info {
  std::optional<socket_address> source;       ///< of this host
  std::optional<socket_address> destination;  ///< of the peer
  port_space space = port_space::tcp;         ///< the space that the addresses are for
  std::string canonical_name;                 ///< of the peer; empty if it was not asked for
  /// An InfiniBand route, as rdma_set_option(3) takes it for RDMA_OPTION_IB_PATH; mostly empty.
  std::vector<std::byte> route;
};

/// The ways to reach what `query` describes, best first. Blocks while a name server is asked.
/// Errors: `unavailable` with the words of getaddrinfo(3) for what cannot be found; those of
/// cm_functions() and rdma_getaddrinfo(3).
[[nodiscard]] result<std::vector<address_info>> look_up(const address_query& query,
                                                        const verbena::provider& from);

}  // namespace verbena::inline VERBENA_ABI::cm
