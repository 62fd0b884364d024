// SPDX-License-Identifier: MIT
#include "verbena/verbs/completion_status.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "src/verbs/bit_names.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

struct status_text {
  std::string_view name;
  std::string_view meaning;
  std::string_view cause;
};

// Indexed by ibv_wc_status. Meanings: ibv_poll_cq(3) and InfiniBand Architecture Specification
// 10.10; causes: what usually turns out to be wrong.
constexpr std::array<status_text, 24> statuses = {{
    {"SUCCESS", "success", ""},
    {"LOC_LEN_ERR", "local length error",
     "a received message was longer than the posted receive (datagrams need 40 bytes more than "
     "their "
     "payload), or a request longer than the device or the path allows"},
    {"LOC_QP_OP_ERR", "local queue pair operation error",
     "the device could not execute the request as it was posted: an operation that the queue pair "
     "was not created for, or more inline data or slices than it has room for"},
    {"LOC_EEC_OP_ERR", "local EE context operation error", ""},
    {"LOC_PROT_ERR", "local protection error",
     "a slice names memory that is not registered any more, is of another protection domain, "
     "reaches beyond its region, or lacks local_write although the device has to write it"},
    {"WR_FLUSH_ERR", "flushed",
     "the queue pair is in the error state; an earlier completion of this queue pair, or of its "
     "peer, says why"},
    {"MW_BIND_ERR", "memory window bind error",
     "the memory region lacks memory_window_bind, or is of another protection domain"},
    {"BAD_RESP_ERR", "unexpected response", "the peer answered out of protocol"},
    {"LOC_ACCESS_ERR", "local access error",
     "a peer's write with immediate reached memory that it may not write"},
    {"REM_INV_REQ_ERR", "remote invalid request",
     "the peer's receive was shorter than the message, the queue pair of the peer has no right for "
     "the operation, an atomic was not aligned to 8 bytes, or more reads were outstanding than the "
     "peer accepts"},
    {"REM_ACCESS_ERR", "remote access error",
     "the remote key is stale or wrong, the range reaches beyond the peer's region, or the region "
     "or the peer's queue pair lacks remote_write, remote_read or remote_atomic"},
    {"REM_OP_ERR", "remote operation error",
     "the peer could not finish the request: usually its receive names memory that is not "
     "registered any more"},
    {"RETRY_EXC_ERR", "retries exceeded",
     "the peer does not answer: its process or its queue pair is gone, was never brought to "
     "ready-to-receive, or the network between the two GIDs is broken (firewall on UDP port 4791, "
     "wrong GID index, path MTU too large)"},
    {"RNR_RETRY_EXC_ERR", "receiver-not-ready retries exceeded",
     "the peer has no receive posted: post receives before the peer sends, or raise "
     "rnr_retry_count or min_rnr_timer"},
    {"LOC_RDD_VIOL_ERR", "local RDD violation", ""},
    {"REM_INV_RD_REQ_ERR", "remote invalid RD request", ""},
    {"REM_ABORT_ERR", "remote aborted", "the peer's queue pair was torn down in the middle"},
    {"INV_EECN_ERR", "invalid EE context number", ""},
    {"INV_EEC_STATE_ERR", "invalid EE context state", ""},
    {"FATAL_ERR", "fatal transport error", "the device is in trouble; look at the kernel's log"},
    {"RESP_TIMEOUT_ERR", "response timeout", "the peer does not answer"},
    {"GENERAL_ERR", "general error", "only the vendor error says more"},
    {"TM_ERR", "tag matching error", ""},
    {"TM_RNDV_INCOMPLETE", "tag matching rendezvous incomplete", ""},
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
    {opcode::segmented_send, "TSO"},
    {opcode::flush, "FLUSH"},
    {opcode::atomic_write, "ATOMIC_WRITE"},
    {opcode::receive, "RECV"},
    {opcode::receive_write_with_immediate, "RECV_RDMA_WITH_IMM"},
    {opcode::tag_added, "TM_ADD"},
    {opcode::tag_deleted, "TM_DEL"},
    {opcode::tag_synchronised, "TM_SYNC"},
    {opcode::tag_received, "TM_RECV"},
    {opcode::tag_missed, "TM_NO_TAG"},
    {opcode::driver1, "DRIVER1"},
    {opcode::driver2, "DRIVER2"},
    {opcode::driver3, "DRIVER3"},
}};

const status_text* find(completion_status status) noexcept {
  const auto index = static_cast<std::size_t>(status);
  return index < statuses.size() ? &statuses[index] : nullptr;
}

}  // namespace

std::string to_string(completion_status status) {
  const status_text* found = find(status);
  return found != nullptr ? std::string(found->name)
                          : detail::unknown_value(static_cast<std::uint32_t>(status));
}

std::string_view describe(completion_status status) noexcept {
  const status_text* found = find(status);
  return found != nullptr ? found->meaning : std::string_view();
}

std::string_view likely_cause(completion_status status) noexcept {
  const status_text* found = find(status);
  return found != nullptr ? found->cause : std::string_view();
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

}  // namespace verbena::inline VERBENA_ABI
