// SPDX-License-Identifier: MIT
// The vocabulary of the software device: opcodes, statuses, flags, states, limits. Enumerations
// that libibverbs also has use the same numbers; softdev/shim asserts this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "verbena/base/flags.hpp"

namespace verbena::softdev {

/// Packet sequence numbers have 24 bits and wrap around.
inline constexpr std::uint32_t psn_mask = 0xff'ffff;

/// A point on the engine's clock, in nanoseconds.
using time_ns = std::uint64_t;
/// Later than every point in time.
inline constexpr time_ns never = ~time_ns{0};

/// The limits of the device. Creation and modification refuse larger values.
namespace limits {
inline constexpr std::uint32_t queue_pair_indices = 16384;  ///< of the numbers of a process
/// Some indices are always free, so that a random choice finds one soon.
inline constexpr std::uint32_t max_queue_pairs = queue_pair_indices - 16;
inline constexpr std::uint32_t max_work_requests = 16384;
inline constexpr std::uint32_t max_sges = 30;
inline constexpr std::uint32_t max_inline_bytes = 1024;
inline constexpr std::uint32_t max_completions = 4'194'303;
inline constexpr std::uint32_t max_regions = 131072;
inline constexpr std::uint32_t max_rd_atomic = 16;
inline constexpr std::uint32_t max_message_bytes = 1U << 30U;
inline constexpr std::uint32_t max_datagram_bytes = 4096;  ///< the MTU of the port
/// The longest send over SRD: the payload of one EFA packet.
inline constexpr std::uint32_t max_reliable_datagram_bytes = 8928;
inline constexpr std::uint32_t max_groups = 128;        ///< multicast groups of a process
inline constexpr std::uint32_t max_group_members = 64;  ///< queue pairs of a process in one group
}  // namespace limits

/// The operation of a send work request (ibv_wr_opcode).
enum class opcode : std::uint8_t {
  rdma_write = 0,
  rdma_write_with_imm = 1,
  send = 2,
  send_with_imm = 3,
  rdma_read = 4,
  compare_swap = 5,
  fetch_add = 6,
};
[[nodiscard]] constexpr bool is_atomic(opcode op) noexcept {
  return op == opcode::compare_swap || op == opcode::fetch_add;
}
/// Returns whether the answer to a request contains data. `max_rd_atomic` and fences count these
/// requests.
[[nodiscard]] constexpr bool is_read_or_atomic(opcode op) noexcept {
  return op == opcode::rdma_read || is_atomic(op);
}
[[nodiscard]] constexpr bool has_immediate(opcode op) noexcept {
  return op == opcode::rdma_write_with_imm || op == opcode::send_with_imm;
}
/// Returns whether a request takes a receive work request at the peer.
[[nodiscard]] constexpr bool consumes_receive(opcode op) noexcept {
  return op == opcode::send || has_immediate(op);
}
[[nodiscard]] constexpr bool is_write(opcode op) noexcept {
  return op == opcode::rdma_write || op == opcode::rdma_write_with_imm;
}
[[nodiscard]] constexpr bool is_send(opcode op) noexcept {
  return op == opcode::send || op == opcode::send_with_imm;
}

/// Returns the same opcode with immediate data. Precondition: is_send(op) or is_write(op).
[[nodiscard]] constexpr opcode with_immediate(opcode op) noexcept {
  return is_send(op) ? opcode::send_with_imm : opcode::rdma_write_with_imm;
}

/// The transport of a queue pair (ibv_qp_type). SRD is a driver's own type in libibverbs, so its
/// number is defined here. The rules of each transport: softdev/core/transport/rules.hpp.
enum class transport : std::uint8_t { rc = 2, uc = 3, ud = 4, srd = 6 };

/// The queue pair number of datagrams to a multicast group; no queue pair has it.
inline constexpr std::uint32_t multicast_qpn = 0xff'ffff;

/// The bytes in front of each datagram in the memory of a receive request: room for the global
/// routing header (GRH), even if the message has none.
inline constexpr std::uint32_t grh_bytes = 40;

/// The outcome in a completion (ibv_wc_status).
enum class completion_status : std::uint8_t {
  success = 0,
  local_length_error = 1,
  local_qp_operation_error = 2,
  local_protection_error = 4,
  flushed = 5,
  bad_response_error = 7,
  local_access_error = 8,
  remote_invalid_request = 9,
  remote_access_error = 10,
  remote_operation_error = 11,
  retry_exceeded = 12,
  rnr_retry_exceeded = 13,
  remote_invalid_read_request = 15,  ///< over SRD: the queue pair does not exist
  fatal_error = 19,
  response_timeout = 20,
};

/// The operation that completed (ibv_wc_opcode).
enum class completion_opcode : std::uint8_t {
  send = 0,
  rdma_write = 1,
  rdma_read = 2,
  compare_swap = 3,
  fetch_add = 4,
  receive = 128,
  receive_rdma_with_imm = 129,
};

/// Flags of a completion (ibv_wc_flags).
inline constexpr std::uint8_t completion_with_grh = 1;  ///< a GRH precedes the payload
inline constexpr std::uint8_t completion_with_imm = 2;

/// Access flags of a memory region, or of a queue pair for its peer (ibv_access_flags). Unknown
/// bits are kept and ignored.
enum class access : std::uint32_t {
  local_write = 1,
  remote_write = 2,
  remote_read = 4,
  remote_atomic = 8,
  zero_based = 32,
  on_demand = 64,
};

/// Flags of a send work request (ibv_send_flags).
enum class send_flag : std::uint8_t { fence = 1, signaled = 2, solicited = 4, inline_data = 8 };

/// The state of a queue pair (ibv_qp_state).
enum class queue_pair_state : std::uint8_t {
  reset = 0,
  init = 1,
  rtr = 2,
  rts = 3,
  sqd = 4,
  sqe = 5,
  error = 6,
};

/// The path to the peer of a connected queue pair, or to the destination of a datagram. It depends
/// on the address, not on the queue pair number: two hosts can have equal numbers.
enum class path_to_peer : std::uint8_t {
  same_host,  ///< within the process, or by the path between processes of this host
  wire,       ///< as packets
  none,       ///< no path: requests end in retry_exceeded
};

/// The members of `queue_pair_attributes` that a modification sets (ibv_qp_attr_mask).
enum class attribute : std::uint32_t {
  state = 1U << 0U,
  current_state = 1U << 1U,
  sqd_notify = 1U << 2U,
  access_flags = 1U << 3U,
  pkey_index = 1U << 4U,
  port = 1U << 5U,
  qkey = 1U << 6U,
  address_vector = 1U << 7U,
  path_mtu = 1U << 8U,
  timeout = 1U << 9U,
  retry_count = 1U << 10U,
  rnr_retry = 1U << 11U,
  receive_psn = 1U << 12U,
  max_rd_atomic = 1U << 13U,
  alternate_path = 1U << 14U,
  min_rnr_timer = 1U << 15U,
  send_psn = 1U << 16U,
  max_dest_rd_atomic = 1U << 17U,
  path_migration_state = 1U << 18U,
  capabilities = 1U << 19U,
  destination_qpn = 1U << 20U,
};

/// The completions for which a completion queue raises an event (ibv_req_notify_cq).
enum class notify : std::uint8_t { none, solicited, any };

/// A scatter/gather element, laid out as ibv_sge.
struct sge {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t lkey = 0;
};
static_assert(sizeof(sge) == 16);

/// A list of `count` elements at `entries`, of any type with the layout of `sge`. Functions use it
/// only during the call.
struct sge_list {
  const void* entries = nullptr;
  std::uint32_t count = 0;
};

/// An identifier of a protection domain, unique in the process.
enum class domain_id : std::uint32_t {};

}  // namespace verbena::softdev

template <>
inline constexpr bool verbena::enable_flags<verbena::softdev::access> = true;
template <>
inline constexpr bool verbena::enable_flags<verbena::softdev::send_flag> = true;
template <>
inline constexpr bool verbena::enable_flags<verbena::softdev::attribute> = true;

namespace verbena::softdev {
using access_flags = verbena::flags<access>;
using send_flags = verbena::flags<send_flag>;
using attribute_mask = verbena::flags<attribute>;
}  // namespace verbena::softdev
