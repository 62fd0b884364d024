// SPDX-License-Identifier: MIT
// The options of queue pairs without their transport: what creation and bring-up work with.
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

/// A new queue pair of the C API, and its extended interface or nullptr.
struct native_queue_pair {
  ibv_qp* made = nullptr;
  ibv_qp_ex* extended = nullptr;
};

/// Creates the queue pair that `asked` describes, and writes into `asked` what it was granted. When
/// the request names no operations, `asked` has all of the transport; a creator may reduce them to
/// those of the device.
using queue_pair_creator = result<native_queue_pair> (*)(const protection_domain& pd,
                                                         const queue_pair_request& request,
                                                         ibv_qp_init_attr_ex& asked);

/// By ibv_create_qp_ex(3), or by ibv_create_qp(3) where the provider has nothing else.
[[nodiscard]] result<native_queue_pair> create_by_verbs(const protection_domain& pd,
                                                        const queue_pair_request& request,
                                                        ibv_qp_init_attr_ex& asked);
/// That of the transport's traits, or the one above.
template <transport Transport>
[[nodiscard]] constexpr queue_pair_creator creator_of() noexcept {
  if constexpr (requires { transport_traits<Transport>::create; })
    return transport_traits<Transport>::create;
  else
    return &create_by_verbs;
}

/// Of connected transports: the way to the peer, and what the peer may do.
struct path_request {
  access_flags access;
  std::optional<mtu> largest;
  std::uint8_t service_level;
  std::uint8_t traffic_class;
  std::uint8_t hop_limit;
};

/// Of reliable transports.
struct reliability_request {
  ack_timeout timeout;
  std::uint8_t retry_count;
  std::uint8_t rnr_retry_count;
  rnr_timer min_rnr_timer;
  std::uint8_t read_depth;
};

/// What was asked. Threads: immutable value.
struct queue_pair_request {
  ibv_qp_type type;
  std::string_view transport;  ///< its name; static
  queue_pair_creator create;
  bool classic;  ///< can do without the extended interface
  send_operations possible;
  send_operations operations;  ///< empty: all that are possible
  queue_pair_capabilities sizes;
  bool signal_all;
  bool extended;
  port_number port;
  std::optional<verbena::gid_index> gid_index;
  std::optional<packet_sequence_number> first_psn;
  std::uint16_t pkey_index;
  std::optional<path_request> path;
  std::optional<reliability_request> reliability;
};

/// The parts that the transport has, by the members that its options have.
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
      .sizes = {.max_send_wr = options.max_send_wr,
                .max_recv_wr = options.max_recv_wr,
                .max_send_sge = options.max_send_sge,
                .max_recv_sge = options.max_recv_sge,
                .max_inline_data = options.max_inline_data},
      .signal_all = true,
      .extended = true,
      .port = options.port,
      .gid_index = options.gid_index,
      .first_psn = options.first_psn,
      .pkey_index = options.pkey_index,
      .path = {},
      .reliability = {},
  };
  if constexpr (requires { options.signal_all; }) request.signal_all = options.signal_all;
  if constexpr (requires { options.extended; }) request.extended = options.extended;
  if constexpr (requires { options.path_mtu; })
    request.path = {.access = options.access,
                    .largest = options.path_mtu,
                    .service_level = options.service_level,
                    .traffic_class = options.traffic_class,
                    .hop_limit = options.hop_limit};
  if constexpr (requires { options.retry_count; })
    request.reliability = {.timeout = options.timeout,
                           .retry_count = options.retry_count,
                           .rnr_retry_count = options.rnr_retry_count,
                           .min_rnr_timer = options.min_rnr_timer,
                           .read_depth = options.read_depth};
  return request;
}

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
