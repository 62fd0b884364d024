// SPDX-License-Identifier: MIT
// The state of queue pairs, and what can be changed about it.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/flags.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/timers.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/address_vector.hpp"
#include "verbena/verbs/mtu.hpp"

namespace verbena::inline VERBENA_ABI {

/// Where a queue pair is in its life. Source: enum ibv_qp_state, ibv_modify_qp(3).
enum class queue_pair_state : std::uint32_t {
  reset = IBV_QPS_RESET,             ///< new; nothing may be posted
  init = IBV_QPS_INIT,               ///< receives may be posted
  ready_to_receive = IBV_QPS_RTR,    ///< answers its peer
  ready_to_send = IBV_QPS_RTS,       ///< does everything
  send_queue_drained = IBV_QPS_SQD,  ///< stops sending, and finishes what is under way
  send_queue_error = IBV_QPS_SQE,    ///< of unreliable transports
  error = IBV_QPS_ERR,               ///< all requests are flushed
};

/// One attribute; sets of them are the masks of ibv_modify_qp(3) and ibv_query_qp(3).
enum class queue_pair_attribute : std::uint32_t {
  state = IBV_QP_STATE,              ///< the state to go to
  current_state = IBV_QP_CUR_STATE,  ///< the state that it is assumed to be in
  drained_notification =
      IBV_QP_EN_SQD_ASYNC_NOTIFY,                ///< an event in SQD when the send queue is drained
  access = IBV_QP_ACCESS_FLAGS,                  ///< what the peer may do
  pkey_index = IBV_QP_PKEY_INDEX,                ///< the place of the partition key
  port = IBV_QP_PORT,                            ///< the port
  qkey = IBV_QP_QKEY,                            ///< what datagrams must carry
  address = IBV_QP_AV,                           ///< the way to the peer
  path_mtu = IBV_QP_PATH_MTU,                    ///< the largest packet
  timeout = IBV_QP_TIMEOUT,                      ///< how long to wait for an acknowledgement
  retry_count = IBV_QP_RETRY_CNT,                ///< how often to send again without an answer
  rnr_retry_count = IBV_QP_RNR_RETRY,            ///< how often when the peer has no receive
  receive_psn = IBV_QP_RQ_PSN,                   ///< of the first packet that comes
  reads_as_initiator = IBV_QP_MAX_QP_RD_ATOMIC,  ///< reads and atomics that this side begins
  alternate_path = IBV_QP_ALT_PATH,              ///< the way that migration changes to
  min_rnr_timer = IBV_QP_MIN_RNR_TIMER,          ///< how long the peer is asked to wait
  send_psn = IBV_QP_SQ_PSN,                      ///< of the first packet that is sent
  reads_as_target = IBV_QP_MAX_DEST_RD_ATOMIC,   ///< reads and atomics that the peer begins
  path_migration = IBV_QP_PATH_MIG_STATE,        ///< the state of path migration
  capabilities = IBV_QP_CAP,                     ///< the sizes of the queues
  destination = IBV_QP_DEST_QPN,                 ///< the number of the peer's queue pair
  rate_limit = IBV_QP_RATE_LIMIT,                ///< how fast packets go out
};
template <>
inline constexpr bool enable_flags<queue_pair_attribute> = true;
/// A set of them.
using queue_pair_attribute_mask = flags<queue_pair_attribute>;

/// `RESET`, `INIT`, `RTR`, `RTS`, `SQD`, `SQE`, `ERR`; `unknown (9)` for other values.
[[nodiscard]] std::string to_string(queue_pair_state state);
/// `STATE | PKEY_INDEX`: the names of verbs.h without `IBV_QP_`; `none` for no attribute.
[[nodiscard]] std::string to_string(queue_pair_attribute_mask mask);

/// A set of attributes with values: what to change, or what was queried. Each setter records its
/// attribute in mask(); each getter gives nothing for an attribute that is not in it.
/// Threads: one thread at a time.
class queue_pair_attributes {
 public:
  /// What setters return, so that they can be chained.
  using self = queue_pair_attributes;

  queue_pair_attributes() noexcept = default;
  /// From the C API.
  queue_pair_attributes(const ibv_qp_attr& native, queue_pair_attribute_mask mask) noexcept
      : native_(native), mask_(mask) {}

  /// The attributes that are in the set.
  [[nodiscard]] queue_pair_attribute_mask mask() const noexcept { return mask_; }
  /// The values in the C API; those outside mask() mean nothing.
  [[nodiscard]] const ibv_qp_attr& native() const noexcept { return native_; }

  /// The state to go to.
  self& set_state(queue_pair_state state) noexcept;
  /// The state that the queue pair is assumed to be in.
  self& set_current_state(queue_pair_state state) noexcept;
  /// Whether reaching the state SQD raises an event when the send queue is drained.
  self& set_drained_notification(bool wanted) noexcept;
  /// What the peer may do to memory by this queue pair.
  self& set_access(access_flags access) noexcept;
  /// The place of the partition key in the port's table.
  self& set_pkey_index(std::uint16_t index) noexcept;
  /// The port to send and receive by.
  self& set_port(port_number port) noexcept;
  /// What datagrams must carry to be let in.
  self& set_qkey(queue_key key) noexcept;
  /// Precondition: the fields are in their ranges (address_vector.hpp).
  self& set_address(const address_vector& to);
  /// The largest packet of the connection.
  self& set_path_mtu(mtu largest) noexcept;
  /// How long to wait for an acknowledgement.
  self& set_timeout(ack_timeout timeout) noexcept;
  /// Precondition: count <= 7.
  self& set_retry_count(std::uint8_t count);
  /// Precondition: count <= 7; 7 means for ever.
  self& set_rnr_retry_count(std::uint8_t count);
  /// The sequence number of the first packet that comes.
  self& set_receive_psn(packet_sequence_number psn) noexcept;
  /// The sequence number of the first packet that is sent.
  self& set_send_psn(packet_sequence_number psn) noexcept;
  /// Reads and atomics in flight that this side begins.
  self& set_reads_as_initiator(std::uint8_t count) noexcept;
  /// Reads and atomics in flight that the peer begins.
  self& set_reads_as_target(std::uint8_t count) noexcept;
  /// How long the peer is asked to wait when no receive is posted.
  self& set_min_rnr_timer(rnr_timer timer) noexcept;
  /// The number of the peer's queue pair.
  self& set_destination(queue_pair_number peer) noexcept;
  /// Takes an attribute out of the set.
  self& remove(queue_pair_attribute_mask attributes) noexcept;

  /// As set_state().
  [[nodiscard]] std::optional<queue_pair_state> state() const noexcept;
  /// As set_current_state().
  [[nodiscard]] std::optional<queue_pair_state> current_state() const noexcept;
  /// As set_access().
  [[nodiscard]] std::optional<access_flags> access() const noexcept;
  /// As set_pkey_index().
  [[nodiscard]] std::optional<std::uint16_t> pkey_index() const noexcept;
  /// As set_port().
  [[nodiscard]] std::optional<port_number> port() const noexcept;
  /// As set_qkey().
  [[nodiscard]] std::optional<queue_key> qkey() const noexcept;
  /// As set_address().
  [[nodiscard]] std::optional<address_vector> address() const noexcept;
  /// As set_path_mtu().
  [[nodiscard]] std::optional<mtu> path_mtu() const noexcept;
  /// As set_timeout().
  [[nodiscard]] std::optional<ack_timeout> timeout() const;
  /// As set_retry_count().
  [[nodiscard]] std::optional<std::uint8_t> retry_count() const noexcept;
  /// As set_rnr_retry_count().
  [[nodiscard]] std::optional<std::uint8_t> rnr_retry_count() const noexcept;
  /// As set_receive_psn().
  [[nodiscard]] std::optional<packet_sequence_number> receive_psn() const;
  /// As set_send_psn().
  [[nodiscard]] std::optional<packet_sequence_number> send_psn() const;
  /// As set_reads_as_initiator().
  [[nodiscard]] std::optional<std::uint8_t> reads_as_initiator() const noexcept;
  /// As set_reads_as_target().
  [[nodiscard]] std::optional<std::uint8_t> reads_as_target() const noexcept;
  /// As set_min_rnr_timer().
  [[nodiscard]] std::optional<rnr_timer> min_rnr_timer() const;
  /// As set_destination().
  [[nodiscard]] std::optional<queue_pair_number> destination() const;

 private:
  ibv_qp_attr native_{};
  queue_pair_attribute_mask mask_;
};

}  // namespace verbena::inline VERBENA_ABI
