// SPDX-License-Identifier: MIT
// How work requests end, and what they were. Values of newer devices are kept as they are.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "verbena/base/flags.hpp"

namespace verbena::inline VERBENA_ABI {

/// How a work request ended. Source: enum ibv_wc_status of verbs.h.
enum class completion_status : std::uint32_t {
  success = IBV_WC_SUCCESS,
  local_length_error = IBV_WC_LOC_LEN_ERR,
  local_queue_pair_operation_error = IBV_WC_LOC_QP_OP_ERR,
  local_ee_context_operation_error = IBV_WC_LOC_EEC_OP_ERR,
  local_protection_error = IBV_WC_LOC_PROT_ERR,
  flushed = IBV_WC_WR_FLUSH_ERR,
  memory_window_bind_error = IBV_WC_MW_BIND_ERR,
  bad_response = IBV_WC_BAD_RESP_ERR,
  local_access_error = IBV_WC_LOC_ACCESS_ERR,
  remote_invalid_request = IBV_WC_REM_INV_REQ_ERR,
  remote_access_error = IBV_WC_REM_ACCESS_ERR,
  remote_operation_error = IBV_WC_REM_OP_ERR,
  retries_exceeded = IBV_WC_RETRY_EXC_ERR,
  rnr_retries_exceeded = IBV_WC_RNR_RETRY_EXC_ERR,
  local_rdd_violation = IBV_WC_LOC_RDD_VIOL_ERR,
  remote_invalid_rd_request = IBV_WC_REM_INV_RD_REQ_ERR,
  remote_aborted = IBV_WC_REM_ABORT_ERR,
  invalid_ee_context_number = IBV_WC_INV_EECN_ERR,
  invalid_ee_context_state = IBV_WC_INV_EEC_STATE_ERR,
  fatal = IBV_WC_FATAL_ERR,
  response_timeout = IBV_WC_RESP_TIMEOUT_ERR,
  general_error = IBV_WC_GENERAL_ERR,
  tag_matching_error = IBV_WC_TM_ERR,
  tag_matching_rendezvous_incomplete = IBV_WC_TM_RNDV_INCOMPLETE,
};

/// What a completed work request did. Source: enum ibv_wc_opcode of verbs.h.
enum class completion_opcode : std::uint32_t {
  send = IBV_WC_SEND,
  write = IBV_WC_RDMA_WRITE,
  read = IBV_WC_RDMA_READ,
  compare_and_swap = IBV_WC_COMP_SWAP,
  fetch_and_add = IBV_WC_FETCH_ADD,
  bind_memory_window = IBV_WC_BIND_MW,
  local_invalidate = IBV_WC_LOCAL_INV,
  segmented_send = IBV_WC_TSO,
  flush = 8,         ///< IBV_WC_FLUSH, which headers before rdma-core 45 do not name
  atomic_write = 9,  ///< IBV_WC_ATOMIC_WRITE
  receive = IBV_WC_RECV,
  receive_write_with_immediate = IBV_WC_RECV_RDMA_WITH_IMM,
  tag_added = IBV_WC_TM_ADD,
  tag_deleted = IBV_WC_TM_DEL,
  tag_synchronised = IBV_WC_TM_SYNC,
  tag_received = IBV_WC_TM_RECV,
  tag_missed = IBV_WC_TM_NO_TAG,
  driver1 = IBV_WC_DRIVER1,
  driver2 = IBV_WC_DRIVER2,
  driver3 = IBV_WC_DRIVER3,
};

/// What else a completion says. Source: enum ibv_wc_flags of verbs.h.
enum class completion_flag : std::uint32_t {
  global_route_header = IBV_WC_GRH,
  with_immediate = IBV_WC_WITH_IMM,
  checksum_ok = IBV_WC_IP_CSUM_OK,
  with_invalidate = IBV_WC_WITH_INV,
  tag_synchronisation_requested = IBV_WC_TM_SYNC_REQ,
  tag_matched = IBV_WC_TM_MATCH,
  tag_data_valid = IBV_WC_TM_DATA_VALID,
};
template <>
inline constexpr bool enable_flags<completion_flag> = true;
using completion_flags = flags<completion_flag>;

/// `RETRY_EXC_ERR`: the name of verbs.h without `IBV_WC_`; `unknown (77)` for other values.
[[nodiscard]] std::string to_string(completion_status status);
/// What the status means, in words; empty for unknown values.
[[nodiscard]] std::string_view describe(completion_status status) noexcept;
/// The usual causes and remedies, in words; empty when there are none to name.
[[nodiscard]] std::string_view likely_cause(completion_status status) noexcept;
/// `RDMA_WRITE`: the name of verbs.h without `IBV_WC_`; `unknown (77)` for other values.
[[nodiscard]] std::string to_string(completion_opcode opcode);
/// `WITH_IMM | 0x80`: names, and what has none in hexadecimal; `none` for no flags.
[[nodiscard]] std::string to_string(completion_flags set);

}  // namespace verbena::inline VERBENA_ABI
