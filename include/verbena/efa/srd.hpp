// SPDX-License-Identifier: MIT
// Scalable reliable datagrams (SRD), the transport of Elastic Fabric Adapters. Each request has a
// destination, as on UD, and is acknowledged, as on RC. Requests may arrive in any order.
//
//   auto prepared = pd.create_qp<efa::srd>(cq, cq).value();
//   auto qp = std::move(prepared).activate(queue_key(0x1234)).value();
//   auto queue = qp.extended().value();
//   auto batch = queue.start_send();
//   batch.send({.id = 1}, slice, way.destination(number, queue_key(0x1234)));
//   batch.write({.id = 2}, slice, remote, way.destination(number, queue_key(0x1234)));
//   batch.submit().value();
//
// Received messages have no GRH. A message has at most the port's MTU; reads and writes have the
// limit of efa::query_device(). Each request generates a completion, even if it is not `.signaled`.
// `.fenced` and `.solicited` are not supported: submit() returns EINVAL. SRD has no
// ibv_post_send(3), no shared receive queues and no atomic operations.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "verbena/base/ids.hpp"
#include "verbena/verbs/detail/queue_pair_request.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/queue_pair_options.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI {

namespace efa {
/// Scalable reliable datagrams: each request has a destination, and completes with success or an
/// error.
struct srd {};
}  // namespace efa

namespace detail {
/// Creates a queue pair with the transport's operations that the device supports:
/// efadv_create_qp_ex(3).
[[nodiscard]] result<native_queue_pair> create_srd_qp(const protection_domain& pd,
                                                      const queue_pair_request& request,
                                                      ibv_qp_init_attr_ex& asked);
}  // namespace detail

/// Properties of SRD; transport_traits documents the members.
template <>
struct transport_traits<efa::srd> {
  /// See transport_traits.
  /// @{
  static constexpr ibv_qp_type type = IBV_QPT_DRIVER;
  static constexpr std::string_view name = "SRD";
  static constexpr bool is_connected = false;
  static constexpr bool has_destination = true;
  static constexpr bool has_write = true;
  static constexpr bool has_read = true;
  static constexpr bool has_atomics = false;
  static constexpr bool has_classic = false;
  static constexpr bool has_shared_receives = false;
  static constexpr std::uint64_t send_operations =
      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
      IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ;
  static constexpr detail::queue_pair_creator create = &detail::create_srd_qp;
  /// @}
};

/// Options of scalable reliable datagrams. The address handle of each request has the route to the
/// peer.
template <>
struct queue_pair_options<efa::srd> {
  /// The sizes of the queues. Devices support little inline data, and no inline data in RDMA
  /// WRITEs.
  queue_sizes queues = {};
  /// Operations of the queue pair. Empty: device_attributes::operations(), all operations of the
  /// device. Posting another operation violates the contract of posting. If the device does not
  /// support an operation that is named here, creation fails.
  send_operations operations = {};

  /// The local port.
  datagram_route route = {};
  /// The packet sequence number of the first packet. If not set: random.
  std::optional<packet_sequence_number> first_psn = {};
};

}  // namespace verbena::inline VERBENA_ABI
