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
  success = IBV_WC_SUCCESS,  ///< it did what it was to do
  local_length_error =
      IBV_WC_LOC_LEN_ERR,  ///< a message too long for the receive, or a request with a wrong length
  local_queue_pair_operation_error =
      IBV_WC_LOC_QP_OP_ERR,  ///< the device found an inconsistency of the queue pair
  local_ee_context_operation_error = IBV_WC_LOC_EEC_OP_ERR,  ///< the same of an end-to-end context
  local_protection_error =
      IBV_WC_LOC_PROT_ERR,        ///< a slice names memory that the key does not let the device use
  flushed = IBV_WC_WR_FLUSH_ERR,  ///< the queue pair had failed before
  memory_window_bind_error = IBV_WC_MW_BIND_ERR,  ///< binding a memory window was not allowed
  bad_response = IBV_WC_BAD_RESP_ERR,             ///< the peer answered what makes no sense
  local_access_error =
      IBV_WC_LOC_ACCESS_ERR,  ///< a remote write met local memory that it may not write
  remote_invalid_request = IBV_WC_REM_INV_REQ_ERR,  ///< the peer found the request invalid
  remote_access_error = IBV_WC_REM_ACCESS_ERR,      ///< the peer's memory may not be used like that
  remote_operation_error = IBV_WC_REM_OP_ERR,       ///< the peer could not do it
  retries_exceeded = IBV_WC_RETRY_EXC_ERR,          ///< the peer did not answer
  rnr_retries_exceeded = IBV_WC_RNR_RETRY_EXC_ERR,  ///< the peer had no receive posted
  local_rdd_violation =
      IBV_WC_LOC_RDD_VIOL_ERR,  ///< another reliable datagram domain than the queue pair's
  remote_invalid_rd_request =
      IBV_WC_REM_INV_RD_REQ_ERR,          ///< a reliable datagram that the peer found invalid
  remote_aborted = IBV_WC_REM_ABORT_ERR,  ///< the peer gave the request up
  invalid_ee_context_number = IBV_WC_INV_EECN_ERR,      ///< there is no such end-to-end context
  invalid_ee_context_state = IBV_WC_INV_EEC_STATE_ERR,  ///< an end-to-end context in a wrong state
  fatal = IBV_WC_FATAL_ERR,                             ///< the device failed
  response_timeout = IBV_WC_RESP_TIMEOUT_ERR,           ///< an answer was begun and did not end
  general_error = IBV_WC_GENERAL_ERR,                   ///< anything else
  tag_matching_error = IBV_WC_TM_ERR,                   ///< matching a tag failed
  tag_matching_rendezvous_incomplete =
      IBV_WC_TM_RNDV_INCOMPLETE,  ///< a matched message is to be fetched by software
};

/// What a completed work request did. Source: enum ibv_wc_opcode of verbs.h.
enum class completion_opcode : std::uint32_t {
  send = IBV_WC_SEND,                   ///< a message was sent
  write = IBV_WC_RDMA_WRITE,            ///< peer memory was written
  read = IBV_WC_RDMA_READ,              ///< peer memory was read
  compare_and_swap = IBV_WC_COMP_SWAP,  ///< peer memory was compared, and perhaps changed
  fetch_and_add = IBV_WC_FETCH_ADD,     ///< peer memory was added to
  bind_memory_window = IBV_WC_BIND_MW,  ///< a memory window was bound
  local_invalidate = IBV_WC_LOCAL_INV,  ///< a key was taken away here
  segmented_send = IBV_WC_TSO,          ///< a message was sent, cut into segments
  flush = 8,              ///< IBV_WC_FLUSH, which headers before rdma-core 45 do not name
  atomic_write = 9,       ///< IBV_WC_ATOMIC_WRITE
  receive = IBV_WC_RECV,  ///< a message was received
  receive_write_with_immediate =
      IBV_WC_RECV_RDMA_WITH_IMM,      ///< a peer wrote with immediate data, and a receive was taken
  tag_added = IBV_WC_TM_ADD,          ///< a receive with a tag was added
  tag_deleted = IBV_WC_TM_DEL,        ///< a receive with a tag was taken away
  tag_synchronised = IBV_WC_TM_SYNC,  ///< software and device agree on the list of tags
  tag_received = IBV_WC_TM_RECV,      ///< a message met its tag
  tag_missed = IBV_WC_TM_NO_TAG,      ///< a message met no tag
  driver1 = IBV_WC_DRIVER1,           ///< what the driver defines
  driver2 = IBV_WC_DRIVER2,           ///< what the driver defines
  driver3 = IBV_WC_DRIVER3,           ///< what the driver defines
};

/// What else a completion says. Source: enum ibv_wc_flags of verbs.h.
enum class completion_flag : std::uint32_t {
  global_route_header = IBV_WC_GRH,   ///< a datagram's first 40 bytes are a header
  with_immediate = IBV_WC_WITH_IMM,   ///< the sender added a number
  checksum_ok = IBV_WC_IP_CSUM_OK,    ///< the device found the IP checksum right
  with_invalidate = IBV_WC_WITH_INV,  ///< the sender took a key away here
  tag_synchronisation_requested =
      IBV_WC_TM_SYNC_REQ,                 ///< the device wants the list of tags synchronised
  tag_matched = IBV_WC_TM_MATCH,          ///< a tag was met
  tag_data_valid = IBV_WC_TM_DATA_VALID,  ///< the data of a matched message is in place
};
template <>
inline constexpr bool enable_flags<completion_flag> = true;
/// A set of them.
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
