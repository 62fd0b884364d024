// SPDX-License-Identifier: MIT
// The options of a queue pair of any transport, for creation and connection.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "verbena/base/result.hpp"
#include "verbena/verbs/queue_pair_options.hpp"

namespace verbena::inline VERBENA_ABI {

class protection_domain;

namespace detail {

struct queue_pair_request;

/// A new queue pair of the C API, and its extended interface (nullptr: not supported).
struct native_queue_pair {
  ibv_qp* made = nullptr;
  ibv_qp_ex* extended = nullptr;
};

/// A function that creates a queue pair with the attributes `asked` and writes the granted sizes
/// into `asked`. If `request.operations` is empty, `asked` has all operations of the transport, and
/// the function may remove those that the device does not support.
using queue_pair_creator = result<native_queue_pair> (*)(const protection_domain& pd,
                                                         const queue_pair_request& request,
                                                         ibv_qp_init_attr_ex& asked);

/// Creates a queue pair with ibv_create_qp_ex(3). If the extended interface is not requested or not
/// supported, uses ibv_create_qp(3).
[[nodiscard]] result<native_queue_pair> create_by_verbs(const protection_domain& pd,
                                                        const queue_pair_request& request,
                                                        ibv_qp_init_attr_ex& asked);
/// Returns `create` of the traits of the transport, or create_by_verbs().
template <transport Transport>
[[nodiscard]] constexpr queue_pair_creator creator_of() noexcept {
  if constexpr (requires { transport_traits<Transport>::create; })
    return transport_traits<Transport>::create;
  else
    return &create_by_verbs;
}

/// The options of a queue pair of any transport. Threads: immutable value.
struct queue_pair_request {
  ibv_qp_type type;
  std::string_view transport;  ///< the name, with static storage duration
  queue_pair_creator create;
  bool classic;                ///< whether the transport has a classic interface
  send_operations possible;    ///< the operations of the transport
  send_operations operations;  ///< empty: all possible operations
  queue_sizes queues;
  bool signal_all;
  bool extended;
  access_flags access;  ///< empty unless the transport is connected
  verbena::route route;
  std::optional<packet_sequence_number> first_psn;
  bool is_reliable_connection;
  verbena::reliability reliability;  ///< of reliable connections
};

/// Converts the options of one transport.
template <transport Transport>
[[nodiscard]] queue_pair_request request_of(const queue_pair_options<Transport>& options) {
  using traits = transport_traits<Transport>;
  queue_pair_request request{
      .type = traits::type,
      .transport = traits::name,
      .create = creator_of<Transport>(),
      .classic = traits::has_classic,
      .possible = operations_of<Transport>,
      .operations = options.operations,
      .queues = options.queues,
      .signal_all = true,
      .extended = true,
      .access = {},
      .route = {.port = options.route.port,
                .gid_index = options.route.gid_index,
                .pkey_index = options.route.pkey_index},
      .first_psn = options.first_psn,
      .is_reliable_connection = false,
      .reliability = {},
  };
  if constexpr (requires { options.signal_all; }) request.signal_all = options.signal_all;
  if constexpr (requires { options.extended; }) request.extended = options.extended;
  if constexpr (requires { options.access; }) request.access = options.access;
  if constexpr (requires { options.route.path_mtu; }) request.route = options.route;
  if constexpr (requires { options.reliability; }) {
    request.is_reliable_connection = true;
    request.reliability = options.reliability;
  }
  return request;
}

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
