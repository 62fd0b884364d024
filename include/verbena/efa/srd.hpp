// SPDX-License-Identifier: MIT
// Scalable reliable datagrams, the transport of Elastic Fabric Adapters: every request is
// addressed, as on UD; every request is acknowledged, as on RC; what was posted in an order may
// arrive in another one.
//
//   auto prepared = pd.create_queue_pair<efa::srd>(cq, cq).value();
//   auto qp = std::move(prepared).activate(queue_key(0x1234)).value();
//   auto queue = qp.extended().value();
//   auto batch = queue.start_send();
//   batch.send({.id = 1}, slice, way.destination(number, queue_key(0x1234)));
//   batch.write({.id = 2}, slice, remote, way.destination(number, queue_key(0x1234)));
//   batch.submit().value();
//
// There is no header in front of what is received. A message has at most the port's MTU; reads and
// writes have the limit of efa::query_device(). Every request reports its completion, whether it is
// `.signaled` or not; `.fenced` and `.solicited` do not exist: submit() refuses them with EINVAL.
// There is no classic interface, no shared receive queue and no atomic operation.
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
/// Scalable reliable datagrams: each request has its own address, and arrives or says why not.
struct srd {};
}  // namespace efa

namespace detail {
/// By efadv_create_qp_ex(3), with what the device has of the transport's operations.
[[nodiscard]] result<native_queue_pair> create_srd(const protection_domain& pd,
                                                   const queue_pair_request& request,
                                                   ibv_qp_init_attr_ex& asked);
}  // namespace detail

/// What scalable reliable datagrams can do; transport_traits says what each member means.
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
  static constexpr detail::queue_pair_creator create = &detail::create_srd;
  /// @}
};

/// Options of scalable reliable datagrams. The way to a peer is said by its address handle.
template <>
struct queue_pair_options<efa::srd> {
  std::uint32_t max_send_wr = 64;  ///< requests that may be outstanding in the send queue
  std::uint32_t max_recv_wr = 64;  ///< and in the receive queue
  std::uint32_t max_send_sge = 1;  ///< slices that one request to send may have
  std::uint32_t max_recv_sge = 1;  ///< and one to receive
  /// Bytes that one request may carry inline; 0: none. Devices have little room, and none in
  /// writes.
  std::uint32_t max_inline_data = 0;
  /// The operations that the queue pair shall have. Empty: all that the device has, which
  /// device_attributes::operations() tells; using another one breaks the contract of posting. One
  /// that is named here and missing in the device is an error of creation.
  send_operations operations = {};

  /// The port to send and receive by.
  port_number port = port_number(1);
  /// The entry of the port's GID table that endpoint() tells peers; EFA ports have one.
  std::optional<verbena::gid_index> gid_index = verbena::gid_index(0);
  /// The sequence number of the first packet. Not given: random.
  std::optional<packet_sequence_number> first_psn = {};
  std::uint16_t pkey_index = 0;  ///< the place of the partition key in the port's table
};

}  // namespace verbena::inline VERBENA_ABI
