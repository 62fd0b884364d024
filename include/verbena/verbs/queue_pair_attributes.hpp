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
  reset = IBV_QPS_RESET,
  init = IBV_QPS_INIT,             ///< receives may be posted
  ready_to_receive = IBV_QPS_RTR,  ///< answers its peer
  ready_to_send = IBV_QPS_RTS,     ///< does everything
  send_queue_drained = IBV_QPS_SQD,
  send_queue_error = IBV_QPS_SQE,  ///< of unreliable transports
  error = IBV_QPS_ERR,             ///< all requests are flushed
};

/// One attribute; sets of them are the masks of ibv_modify_qp(3) and ibv_query_qp(3).
enum class queue_pair_attribute : std::uint32_t {
  state = IBV_QP_STATE,
  current_state = IBV_QP_CUR_STATE,
  drained_notification = IBV_QP_EN_SQD_ASYNC_NOTIFY,
  access = IBV_QP_ACCESS_FLAGS,
  pkey_index = IBV_QP_PKEY_INDEX,
  port = IBV_QP_PORT,
  qkey = IBV_QP_QKEY,
  address = IBV_QP_AV,
  path_mtu = IBV_QP_PATH_MTU,
  timeout = IBV_QP_TIMEOUT,
  retry_count = IBV_QP_RETRY_CNT,
  rnr_retry_count = IBV_QP_RNR_RETRY,
  receive_psn = IBV_QP_RQ_PSN,
  reads_as_initiator = IBV_QP_MAX_QP_RD_ATOMIC,
  alternate_path = IBV_QP_ALT_PATH,
  min_rnr_timer = IBV_QP_MIN_RNR_TIMER,
  send_psn = IBV_QP_SQ_PSN,
  reads_as_target = IBV_QP_MAX_DEST_RD_ATOMIC,
  path_migration = IBV_QP_PATH_MIG_STATE,
  capabilities = IBV_QP_CAP,
  destination = IBV_QP_DEST_QPN,
  rate_limit = IBV_QP_RATE_LIMIT,
};
template <>
inline constexpr bool enable_flags<queue_pair_attribute> = true;
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
  using self = queue_pair_attributes;

  queue_pair_attributes() noexcept = default;
  /// From the C API.
  queue_pair_attributes(const ibv_qp_attr& native, queue_pair_attribute_mask mask) noexcept
      : native_(native), mask_(mask) {}

  [[nodiscard]] queue_pair_attribute_mask mask() const noexcept { return mask_; }
  [[nodiscard]] const ibv_qp_attr& native() const noexcept { return native_; }

  self& set_state(queue_pair_state state) noexcept;
  /// The state that the queue pair is assumed to be in.
  self& set_current_state(queue_pair_state state) noexcept;
  self& set_drained_notification(bool wanted) noexcept;
  self& set_access(access_flags access) noexcept;
  self& set_pkey_index(std::uint16_t index) noexcept;
  self& set_port(port_number port) noexcept;
  self& set_qkey(queue_key key) noexcept;
  /// Precondition: the fields are in their ranges (address_vector.hpp).
  self& set_address(const address_vector& to);
  self& set_path_mtu(mtu largest) noexcept;
  self& set_timeout(ack_timeout timeout) noexcept;
  /// Precondition: count <= 7.
  self& set_retry_count(std::uint8_t count);
  /// Precondition: count <= 7; 7 means for ever.
  self& set_rnr_retry_count(std::uint8_t count);
  self& set_receive_psn(packet_sequence_number psn) noexcept;
  self& set_send_psn(packet_sequence_number psn) noexcept;
  self& set_reads_as_initiator(std::uint8_t count) noexcept;
  self& set_reads_as_target(std::uint8_t count) noexcept;
  self& set_min_rnr_timer(rnr_timer timer) noexcept;
  self& set_destination(queue_pair_number peer) noexcept;
  /// Takes an attribute out of the set.
  self& remove(queue_pair_attribute_mask attributes) noexcept;

  [[nodiscard]] std::optional<queue_pair_state> state() const noexcept;
  [[nodiscard]] std::optional<queue_pair_state> current_state() const noexcept;
  [[nodiscard]] std::optional<access_flags> access() const noexcept;
  [[nodiscard]] std::optional<std::uint16_t> pkey_index() const noexcept;
  [[nodiscard]] std::optional<port_number> port() const noexcept;
  [[nodiscard]] std::optional<queue_key> qkey() const noexcept;
  [[nodiscard]] std::optional<address_vector> address() const noexcept;
  [[nodiscard]] std::optional<mtu> path_mtu() const noexcept;
  [[nodiscard]] std::optional<ack_timeout> timeout() const;
  [[nodiscard]] std::optional<std::uint8_t> retry_count() const noexcept;
  [[nodiscard]] std::optional<std::uint8_t> rnr_retry_count() const noexcept;
  [[nodiscard]] std::optional<packet_sequence_number> receive_psn() const;
  [[nodiscard]] std::optional<packet_sequence_number> send_psn() const;
  [[nodiscard]] std::optional<std::uint8_t> reads_as_initiator() const noexcept;
  [[nodiscard]] std::optional<std::uint8_t> reads_as_target() const noexcept;
  [[nodiscard]] std::optional<rnr_timer> min_rnr_timer() const;
  [[nodiscard]] std::optional<queue_pair_number> destination() const;

 private:
  ibv_qp_attr native_{};
  queue_pair_attribute_mask mask_;
};

}  // namespace verbena::inline VERBENA_ABI
