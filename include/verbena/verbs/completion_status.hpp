// SPDX-License-Identifier: MIT
// Statuses, opcodes and flags of completions. Values unknown to the library are preserved.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "verbena/base/error.hpp"
#include "verbena/base/flags.hpp"

namespace verbena::inline VERBENA_ABI {

/// The status of a completed work request. Values as in `ibv_wc_status`. Source: ibv_poll_cq(3).
enum class completion_status : std::uint32_t {
  success = IBV_WC_SUCCESS,                 ///< the request succeeded
  local_length_error = IBV_WC_LOC_LEN_ERR,  ///< a message was longer than the receive, or a request
                                            ///< had an invalid length
  local_queue_pair_operation_error =
      IBV_WC_LOC_QP_OP_ERR,  ///< the device found the queue pair inconsistent
  local_ee_context_operation_error =
      IBV_WC_LOC_EEC_OP_ERR,                      ///< the device found the EE context inconsistent
  local_protection_error = IBV_WC_LOC_PROT_ERR,   ///< the key of a slice does not permit the access
  flushed = IBV_WC_WR_FLUSH_ERR,                  ///< the queue pair was in the error state
  memory_window_bind_error = IBV_WC_MW_BIND_ERR,  ///< the memory window cannot be bound
  bad_response = IBV_WC_BAD_RESP_ERR,             ///< the response of the peer is invalid
  local_access_error = IBV_WC_LOC_ACCESS_ERR,  ///< a WRITE with immediate data of the peer violated
                                               ///< the access flags of local memory
  remote_invalid_request = IBV_WC_REM_INV_REQ_ERR,  ///< the peer found the request invalid
  remote_access_error = IBV_WC_REM_ACCESS_ERR,  ///< the peer's memory does not permit the access
  remote_operation_error = IBV_WC_REM_OP_ERR,   ///< the peer could not complete the request
  retries_exceeded = IBV_WC_RETRY_EXC_ERR,      ///< the peer did not acknowledge a packet
  rnr_retries_exceeded = IBV_WC_RNR_RETRY_EXC_ERR,  ///< the peer had no receive posted
  local_rdd_violation =
      IBV_WC_LOC_RDD_VIOL_ERR,  ///< the reliable datagram domain is not that of the queue pair
  remote_invalid_rd_request =
      IBV_WC_REM_INV_RD_REQ_ERR,          ///< the peer found the reliable datagram invalid
  remote_aborted = IBV_WC_REM_ABORT_ERR,  ///< the peer aborted the request
  invalid_ee_context_number = IBV_WC_INV_EECN_ERR,      ///< the EE context does not exist
  invalid_ee_context_state = IBV_WC_INV_EEC_STATE_ERR,  ///< the EE context is in a wrong state
  fatal = IBV_WC_FATAL_ERR,                             ///< the device failed
  response_timeout = IBV_WC_RESP_TIMEOUT_ERR,  ///< a response was incomplete at its timeout
  general_error = IBV_WC_GENERAL_ERR,          ///< another error
  tag_matching_error = IBV_WC_TM_ERR,          ///< tag matching failed
  tag_matching_rendezvous_incomplete =
      IBV_WC_TM_RNDV_INCOMPLETE,  ///< software must fetch the matched message
};

/// Returns `status` as a code of completion_category(). The code equals
/// std::errc::operation_canceled for `flushed`, and std::errc::timed_out if the peer did not
/// answer.
[[nodiscard]] std::error_code make_error_code(completion_status status) noexcept;

/// The operation of a completed work request. Values as in `ibv_wc_opcode`. Source: ibv_poll_cq(3).
enum class completion_opcode : std::uint32_t {
  send = IBV_WC_SEND,                   ///< a message was sent
  write = IBV_WC_RDMA_WRITE,            ///< peer memory was written
  read = IBV_WC_RDMA_READ,              ///< peer memory was read
  compare_and_swap = IBV_WC_COMP_SWAP,  ///< peer memory was compared, and perhaps changed
  fetch_and_add = IBV_WC_FETCH_ADD,     ///< peer memory was added to
  bind_memory_window = IBV_WC_BIND_MW,  ///< a memory window was bound
  local_invalidate = IBV_WC_LOCAL_INV,  ///< a local rkey was invalidated
  tso = IBV_WC_TSO,                     ///< a message was sent in segments
  flush = 8,                            ///< a FLUSH (newer rdma-core)
  atomic_write = 9,                     ///< an ATOMIC WRITE (newer rdma-core)
  receive = IBV_WC_RECV,                ///< a message was received
  receive_write_with_immediate =
      IBV_WC_RECV_RDMA_WITH_IMM,      ///< an RDMA WRITE with immediate data consumed a receive
  tag_added = IBV_WC_TM_ADD,          ///< a tagged receive was added
  tag_deleted = IBV_WC_TM_DEL,        ///< a tagged receive was removed
  tag_synchronized = IBV_WC_TM_SYNC,  ///< software and device synchronized the tag list
  tag_received = IBV_WC_TM_RECV,      ///< a message matched a tag
  tag_missed = IBV_WC_TM_NO_TAG,      ///< a message matched no tag
  driver1 = IBV_WC_DRIVER1,           ///< defined by the driver
  driver2 = 136,                      ///< defined by the driver (newer rdma-core)
  driver3 = 137,                      ///< defined by the driver (newer rdma-core)
};

/// A flag of a completion. Values as in `ibv_wc_flags`. Source: ibv_poll_cq(3).
enum class completion_flag : std::uint32_t {
  global_route_header = IBV_WC_GRH,   ///< the first 40 bytes of the datagram are a GRH
  with_immediate = IBV_WC_WITH_IMM,   ///< the message has immediate data
  checksum_ok = IBV_WC_IP_CSUM_OK,    ///< the checksums of IPv4 header and TCP or UDP are correct
  with_invalidate = IBV_WC_WITH_INV,  ///< the message invalidated a local rkey
  tag_synchronization_requested =
      IBV_WC_TM_SYNC_REQ,                 ///< the device requests synchronization of the tag list
  tag_matched = IBV_WC_TM_MATCH,          ///< the message matched a tag
  tag_data_valid = IBV_WC_TM_DATA_VALID,  ///< the data of a matched message is in place
};
template <>
inline constexpr bool enable_flags<completion_flag> = true;
/// A set of completion flags.
using completion_flags = flags<completion_flag>;

/// Classes of completion statuses, by the side that can remedy the failure.
enum class completion_status_class : std::uint8_t {
  success,         ///< the request succeeded
  flushed,         ///< WR_FLUSH_ERR: an earlier failure of the queue pair is the cause
  local_error,     ///< the request or the local memory or queue pair is wrong
  remote_error,    ///< the peer rejected the request or could not complete it
  retry_exceeded,  ///< the peer did not respond, or had no receive posted (RNR)
  device_error,    ///< the device failed, or the status is unknown
};
/// Returns the class of a status.
[[nodiscard]] completion_status_class class_of(completion_status status) noexcept;

/// Returns the class in words: `retry exceeded`.
[[nodiscard]] std::string_view to_string(completion_status_class which) noexcept;
/// Returns the name of verbs.h without `IBV_WC_`: `RETRY_EXC_ERR`, or `unknown (77)`.
[[nodiscard]] std::string to_string(completion_status status);
/// Returns the meaning of the status in words; empty for unknown values.
[[nodiscard]] std::string_view describe(completion_status status) noexcept;
/// Returns the usual causes and remedies; empty if none are known.
[[nodiscard]] std::string_view likely_cause(completion_status status) noexcept;
/// Returns the name of verbs.h without `IBV_WC_`: `RDMA_WRITE`, or `unknown (77)`.
[[nodiscard]] std::string to_string(completion_opcode opcode);
/// Returns `WITH_IMM | 0x80`. Unknown bits are hexadecimal. The empty set is `none`.
[[nodiscard]] std::string to_string(completion_flags set);

}  // namespace verbena::inline VERBENA_ABI

/// Permits comparisons of completion_status with std::error_code.
template <>
struct std::is_error_code_enum<verbena::completion_status> : std::true_type {};
