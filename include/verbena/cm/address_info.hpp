// SPDX-License-Identifier: MIT
// Name resolution by the connection manager: rdma_getaddrinfo(3).
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

/// The host and service to resolve. Source: rdma_getaddrinfo(3). Threads: immutable value.
struct address_query {
  std::string node;                    ///< a name or an address; empty for any address of this host
  std::string service;                 ///< a port number or a name of services(5); empty for none
  port_space space = port_space::tcp;  ///< port space of the addresses
  bool passive = false;                ///< for a listener: the results are in `source`
  bool numeric_host = false;           ///< `node` must be an address; no name server is queried
  bool no_route = false;               ///< do not resolve the route
  std::optional<int> family = {};      ///< only AF_INET, AF_INET6 or AF_IB
  std::optional<socket_address> source = {};  ///< local address to use
};

/// One result of a resolution. Threads: immutable value.
struct address_info {
  std::optional<socket_address> source;       ///< local address
  std::optional<socket_address> destination;  ///< the peer's address
  port_space space = port_space::tcp;         ///< port space of the addresses
  std::string canonical_name;                 ///< of the peer; empty if not requested
  /// An InfiniBand route for rdma_set_option(3), RDMA_OPTION_IB_PATH; usually empty.
  std::vector<std::byte> route;
};

/// Resolves `query`. Returns the results in order of preference. Blocks and allocates.
/// Errors: `unavailable` with the text of gai_strerror(3) if the name cannot be resolved; those of
/// cm_functions() and rdma_getaddrinfo(3).
[[nodiscard]] result<std::vector<address_info>> resolve(const address_query& query,
                                                        const verbena::provider& from);

}  // namespace verbena::inline VERBENA_ABI::cm
