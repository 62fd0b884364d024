// SPDX-License-Identifier: MIT
// States and attributes of queue pairs.
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

/// The state of a queue pair. Source: enum ibv_qp_state, ibv_modify_qp(3).
enum class queue_pair_state : std::uint32_t {
  reset = IBV_QPS_RESET,           ///< new; posting fails
  init = IBV_QPS_INIT,             ///< receives can be posted; nothing is received yet
  ready_to_receive = IBV_QPS_RTR,  ///< receives, and processes requests of the peer
  ready_to_send = IBV_QPS_RTS,     ///< sends and receives
  /// Finishes sends that have begun; async_event_kind::send_queue_drained reports the end. Does not
  /// begin other sends.
  send_queue_drain = IBV_QPS_SQD,
  send_queue_error = IBV_QPS_SQE,  ///< UC and UD: a send failed; receiving continues
  error = IBV_QPS_ERR,             ///< flushes all requests
};

/// An attribute of a queue pair. Values as in `ibv_qp_attr_mask`. Source: ibv_modify_qp(3).
enum class queue_pair_attribute : std::uint32_t {
  state = IBV_QP_STATE,                               ///< the next state
  current_state = IBV_QP_CUR_STATE,                   ///< the assumed current state
  drained_notification = IBV_QP_EN_SQD_ASYNC_NOTIFY,  ///< whether SQD raises SQ_DRAINED
  access = IBV_QP_ACCESS_FLAGS,                       ///< accepted remote operations
  pkey_index = IBV_QP_PKEY_INDEX,                     ///< index in the P_Key table of the port
  port = IBV_QP_PORT,                                 ///< the port
  qkey = IBV_QP_QKEY,                                 ///< the Q_Key
  address = IBV_QP_AV,                                ///< the peer's address
  path_mtu = IBV_QP_PATH_MTU,                         ///< the path MTU
  timeout = IBV_QP_TIMEOUT,                           ///< the ACK timeout
  retry_count = IBV_QP_RETRY_CNT,                   ///< retransmissions without an acknowledgement
  rnr_retry_count = IBV_QP_RNR_RETRY,               ///< retries after RNR NAKs
  receive_psn = IBV_QP_RQ_PSN,                      ///< PSN of the first received packet
  initiator_depth = IBV_QP_MAX_QP_RD_ATOMIC,        ///< outstanding reads and atomics of this side
  alternate_path = IBV_QP_ALT_PATH,                 ///< the alternate path
  min_rnr_timer = IBV_QP_MIN_RNR_TIMER,             ///< the delay in RNR NAKs
  send_psn = IBV_QP_SQ_PSN,                         ///< PSN of the first sent packet
  responder_resources = IBV_QP_MAX_DEST_RD_ATOMIC,  ///< outstanding reads and atomics of the peer
  path_migration = IBV_QP_PATH_MIG_STATE,           ///< the state of path migration
  capabilities = IBV_QP_CAP,                        ///< the sizes of the queues
  destination = IBV_QP_DEST_QPN,                    ///< the number of the remote queue pair
  rate_limit = IBV_QP_RATE_LIMIT,                   ///< the packet pacing rate in kbit/s
};
template <>
inline constexpr bool enable_flags<queue_pair_attribute> = true;
/// A set of attributes: a mask of ibv_modify_qp(3) or ibv_query_qp(3).
using queue_pair_attribute_mask = flags<queue_pair_attribute>;

/// Returns `RESET`, `INIT`, `RTR`, `RTS`, `SQD`, `SQE`, `ERR` or `unknown (9)`.
[[nodiscard]] std::string to_string(queue_pair_state state);
/// Returns the names of verbs.h without `IBV_QP_`: `STATE | PKEY_INDEX`. The empty set is `none`.
[[nodiscard]] std::string to_string(queue_pair_attribute_mask mask);

/// A set of attributes with values, for queue_pair modify() and query(). Each setter adds its
/// attribute to mask(). The getters return `nullopt` for attributes that are not in mask().
/// Threads: one thread at a time.
class queue_pair_attributes {
 public:
  /// The type that setters return a reference to, for chaining.
  using self = queue_pair_attributes;

  queue_pair_attributes() noexcept = default;
  /// Converts from the C API.
  queue_pair_attributes(const ibv_qp_attr& native, queue_pair_attribute_mask mask) noexcept
      : native_(native), mask_(mask) {}

  /// Returns the attributes that have a value.
  [[nodiscard]] queue_pair_attribute_mask mask() const noexcept { return mask_; }
  /// Returns the structure of the C API. Values outside mask() are unspecified.
  [[nodiscard]] const ibv_qp_attr& native() const noexcept { return native_; }

  /// Sets the next state of the queue pair.
  self& set_state(queue_pair_state state) noexcept;
  /// Sets the assumed current state.
  self& set_current_state(queue_pair_state state) noexcept;
  /// Sets whether async_event_kind::send_queue_drained reports that the send queue is drained.
  /// Valid if the next state is SQD.
  self& set_drained_notification(bool wanted) noexcept;
  /// Sets the remote operations that the queue pair accepts: remote_read, remote_write and
  /// remote_atomic.
  self& set_access(access_flags access) noexcept;
  /// Sets the index in the P_Key table of the port.
  self& set_pkey_index(std::uint16_t index) noexcept;
  /// Sets the port.
  self& set_port(port_number port) noexcept;
  /// Sets the Q_Key.
  self& set_qkey(queue_key key) noexcept;
  /// Sets the peer's address. Precondition: service level, flow label and source path bits are in
  /// the ranges of address_vector.
  self& set_address(const address_vector& to);
  /// Sets the path MTU.
  self& set_path_mtu(mtu largest) noexcept;
  /// Sets the ACK timeout.
  self& set_timeout(ack_timeout timeout) noexcept;
  /// Sets the retry count: see reliability::retry_count. Precondition: count <= 7.
  self& set_retry_count(std::uint8_t count);
  /// Sets the RNR retry count; 7 means no limit. Precondition: count <= 7.
  self& set_rnr_retry_count(std::uint8_t count);
  /// Sets the PSN of the first received packet.
  self& set_receive_psn(packet_sequence_number psn) noexcept;
  /// Sets the PSN of the first sent packet.
  self& set_send_psn(packet_sequence_number psn) noexcept;
  /// Sets the initiator depth: outstanding reads and atomics of this side.
  self& set_initiator_depth(std::uint8_t count) noexcept;
  /// Sets the responder resources: outstanding reads and atomics of the peer.
  self& set_responder_resources(std::uint8_t count) noexcept;
  /// Sets the delay that RNR NAKs of this side request from the peer.
  self& set_min_rnr_timer(rnr_timer timer) noexcept;
  /// Sets the number of the remote queue pair.
  self& set_destination(queue_pair_number peer) noexcept;
  /// Removes attributes from mask().
  self& remove(queue_pair_attribute_mask attributes) noexcept;

  /// Returns the next state.
  [[nodiscard]] std::optional<queue_pair_state> state() const noexcept;
  /// Returns the assumed current state.
  [[nodiscard]] std::optional<queue_pair_state> current_state() const noexcept;
  /// Returns the remote operations that the queue pair accepts.
  [[nodiscard]] std::optional<access_flags> access() const noexcept;
  /// Returns the index in the P_Key table of the port.
  [[nodiscard]] std::optional<std::uint16_t> pkey_index() const noexcept;
  /// Returns the port.
  [[nodiscard]] std::optional<port_number> port() const noexcept;
  /// Returns the Q_Key.
  [[nodiscard]] std::optional<queue_key> qkey() const noexcept;
  /// Returns the peer's address.
  [[nodiscard]] std::optional<address_vector> address() const noexcept;
  /// Returns the path MTU.
  [[nodiscard]] std::optional<mtu> path_mtu() const noexcept;
  /// Returns the ACK timeout.
  [[nodiscard]] std::optional<ack_timeout> timeout() const;
  /// Returns the retry count.
  [[nodiscard]] std::optional<std::uint8_t> retry_count() const noexcept;
  /// Returns the RNR retry count.
  [[nodiscard]] std::optional<std::uint8_t> rnr_retry_count() const noexcept;
  /// Returns the PSN of the first received packet.
  [[nodiscard]] std::optional<packet_sequence_number> receive_psn() const;
  /// Returns the PSN of the first sent packet.
  [[nodiscard]] std::optional<packet_sequence_number> send_psn() const;
  /// Returns the initiator depth.
  [[nodiscard]] std::optional<std::uint8_t> initiator_depth() const noexcept;
  /// Returns the responder resources.
  [[nodiscard]] std::optional<std::uint8_t> responder_resources() const noexcept;
  /// Returns the delay that RNR NAKs of this side request from the peer.
  [[nodiscard]] std::optional<rnr_timer> min_rnr_timer() const;
  /// Returns the number of the remote queue pair.
  [[nodiscard]] std::optional<queue_pair_number> destination() const;

 private:
  ibv_qp_attr native_{};
  queue_pair_attribute_mask mask_;
};

}  // namespace verbena::inline VERBENA_ABI
