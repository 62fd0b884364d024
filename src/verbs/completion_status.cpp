// SPDX-License-Identifier: MIT
#include "verbena/verbs/completion_status.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/completion_text.hpp"
#include "src/verbs/bit_names.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// Indexed by ibv_wc_status: the usual causes and remedies.
constexpr std::array<std::string_view, 24> causes = {{
    "",
    "a received message was longer than the posted receive (datagrams need 40 bytes more than "
    "their payload), or a request exceeded the maximum of the device or the path",
    "the device could not execute the request: the queue pair was not created for the operation, "
    "for so much inline data or for so many slices",
    "",
    "a slice refers to memory that is not registered, is of another protection domain, exceeds "
    "its region, or lacks local_write although the operation writes it",
    "the queue pair is in the error state; an earlier completion of this queue pair or of its "
    "peer has the cause",
    "the memory region lacks memory_window_bind, or is of another protection domain",
    "the peer violated the protocol",
    "a peer's write with immediate data accessed memory without remote_write",
    "the peer's receive was shorter than the message, the peer's queue pair lacks the access flag "
    "for the operation, an atomic was not aligned to 8 bytes, or more reads were outstanding than "
    "the peer accepts",
    "the remote key is wrong or no longer valid, the range exceeds the peer's region, or the "
    "region or the peer's queue pair lacks remote_write, remote_read or remote_atomic",
    "the peer could not complete the request: usually its receive refers to memory that is not "
    "registered",
    "the peer does not answer: its process or its queue pair no longer exists, the queue pair is "
    "not in RTR or RTS, or the network between the two GIDs drops packets (firewall on UDP port "
    "4791, wrong GID index, path MTU too large)",
    "the peer has no receive posted: post receives before the peer sends, or raise "
    "rnr_retry_count or min_rnr_timer",
    "",
    "",
    "the peer aborted the operation",
    "",
    "",
    "the device failed; see the kernel log",
    "the peer does not answer",
    "the vendor error has the details",
    "",
    "",
}};

using named_opcode = std::pair<completion_opcode, std::string_view>;
using opcode = completion_opcode;
constexpr std::array<named_opcode, 20> opcodes = {{
    {opcode::send, "SEND"},
    {opcode::write, "RDMA_WRITE"},
    {opcode::read, "RDMA_READ"},
    {opcode::compare_and_swap, "COMP_SWAP"},
    {opcode::fetch_and_add, "FETCH_ADD"},
    {opcode::bind_memory_window, "BIND_MW"},
    {opcode::local_invalidate, "LOCAL_INV"},
    {opcode::tso, "TSO"},
    {opcode::flush, "FLUSH"},
    {opcode::atomic_write, "ATOMIC_WRITE"},
    {opcode::receive, "RECV"},
    {opcode::receive_write_with_immediate, "RECV_RDMA_WITH_IMM"},
    {opcode::tag_added, "TM_ADD"},
    {opcode::tag_deleted, "TM_DEL"},
    {opcode::tag_synchronized, "TM_SYNC"},
    {opcode::tag_received, "TM_RECV"},
    {opcode::tag_missed, "TM_NO_TAG"},
    {opcode::driver1, "DRIVER1"},
    {opcode::driver2, "DRIVER2"},
    {opcode::driver3, "DRIVER3"},
}};

const detail::completion_text* find(completion_status status) noexcept {
  return detail::find_completion_text(static_cast<std::uint32_t>(status));
}

}  // namespace

std::string to_string(completion_status status) {
  const auto* found = find(status);
  return found != nullptr ? std::string(found->name)
                          : detail::unknown_value(static_cast<std::uint32_t>(status));
}

std::error_code make_error_code(completion_status status) noexcept {
  return {static_cast<int>(status), completion_category()};
}

std::string_view describe(completion_status status) noexcept {
  const auto* found = find(status);
  return found != nullptr ? found->meaning : std::string_view();
}

std::string_view likely_cause(completion_status status) noexcept {
  const auto index = static_cast<std::size_t>(status);
  return index < causes.size() ? causes[index] : std::string_view();
}

std::string to_string(completion_opcode opcode) {
  const auto* found = std::ranges::find(opcodes, opcode, &named_opcode::first);
  return found != opcodes.end() ? std::string(found->second)
                                : detail::unknown_value(static_cast<std::uint32_t>(opcode));
}

std::string to_string(completion_flags set) {
  static constexpr std::array<detail::named_bit, 7> bits = {
      {{IBV_WC_GRH, "GRH"},
       {IBV_WC_WITH_IMM, "WITH_IMM"},
       {IBV_WC_IP_CSUM_OK, "IP_CSUM_OK"},
       {IBV_WC_WITH_INV, "WITH_INV"},
       {IBV_WC_TM_SYNC_REQ, "TM_SYNC_REQ"},
       {IBV_WC_TM_MATCH, "TM_MATCH"},
       {IBV_WC_TM_DATA_VALID, "TM_DATA_VALID"}}};
  return detail::names_of_bits(set.mask(), bits);
}

completion_status_class class_of(completion_status status) noexcept {
  using enum completion_status;
  switch (status) {
    case success:
      return completion_status_class::success;
    case flushed:
      return completion_status_class::flushed;
    case local_length_error:
    case local_queue_pair_operation_error:
    case local_ee_context_operation_error:
    case local_protection_error:
    case memory_window_bind_error:
    case local_access_error:
    case local_rdd_violation:
    case invalid_ee_context_number:
    case invalid_ee_context_state:
    case tag_matching_error:
    case tag_matching_rendezvous_incomplete:
      return completion_status_class::local_error;
    case bad_response:
    case remote_invalid_request:
    case remote_access_error:
    case remote_operation_error:
    case remote_invalid_rd_request:
    case remote_aborted:
      return completion_status_class::remote_error;
    case retries_exceeded:
    case rnr_retries_exceeded:
    case response_timeout:
      return completion_status_class::retry_exceeded;
    case fatal:
    case general_error:
      break;
  }
  return completion_status_class::device_error;
}

std::string_view to_string(completion_status_class which) noexcept {
  switch (which) {
    case completion_status_class::success:
      return "success";
    case completion_status_class::flushed:
      return "flushed";
    case completion_status_class::local_error:
      return "local error";
    case completion_status_class::remote_error:
      return "remote error";
    case completion_status_class::retry_exceeded:
      return "retry exceeded";
    case completion_status_class::device_error:
      break;
  }
  return "device error";
}

}  // namespace verbena::inline VERBENA_ABI
