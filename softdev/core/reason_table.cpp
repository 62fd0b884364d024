// SPDX-License-Identifier: MIT
#include "softdev/core/reason_table.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "softdev/core/failure.hpp"

namespace verbena::softdev {
namespace {

struct row {
  reason code;
  const char* name;
  const char* statuses;
  const char* check;
  const char* remedy;
};

constexpr row rows[] = {
    {reason::local_key_unknown, "local_key_unknown", "IBV_WC_LOC_PROT_ERR",
     "The lkey of a scatter/gather element is not registered.",
     "Use the lkey of a registered memory region, and deregister it after the last completion."},
    {reason::local_key_other_domain, "local_key_other_domain", "IBV_WC_LOC_PROT_ERR",
     "The lkey and the queue pair belong to different protection domains.",
     "Register the memory in the protection domain of the queue pair."},
    {reason::local_range, "local_range", "IBV_WC_LOC_PROT_ERR",
     "A scatter/gather element is outside its memory region.",
     "Check that address and address + length are within the region."},
    {reason::local_not_mapped, "local_not_mapped", "IBV_WC_LOC_PROT_ERR",
     "The memory of a registered region is not mapped, or not accessible.",
     "Deregister a region before its memory is unmapped, protected or truncated."},
    {reason::local_access_denied, "local_access_denied", "IBV_WC_LOC_PROT_ERR",
     "The region does not have the access flag that the request needs.",
     "Register receive buffers and destinations of reads with IBV_ACCESS_LOCAL_WRITE."},
    {reason::message_too_long, "message_too_long", "IBV_WC_LOC_LEN_ERR",
     "The message is longer than the transport permits.",
     "Split the message: 1 GiB over RC and UC, the port MTU over UD."},
    {reason::atomic_length, "atomic_length", "IBV_WC_LOC_LEN_ERR",
     "The scatter list of an atomic operation does not have 8 bytes.",
     "Use one element of 8 bytes."},
    {reason::no_read_depth, "no_read_depth", "IBV_WC_LOC_QP_OP_ERR",
     "The queue pair has max_rd_atomic 0, so it cannot send reads and atomics.",
     "Set max_rd_atomic to at least 1 in ibv_modify_qp to RTS."},
    {reason::bad_work_request, "bad_work_request", "IBV_WC_LOC_QP_OP_ERR",
     "The opcode of the work request is unknown.",
     "Use an opcode that the transport of the queue pair supports."},
    {reason::no_address, "no_address", "IBV_WC_LOC_QP_OP_ERR", "A datagram has no destination.",
     "Set the address handle, the queue pair number and the Q_Key of each request."},
    {reason::receive_too_short, "receive_too_short", "IBV_WC_LOC_LEN_ERR",
     "The message is longer than the receive request at the head of the queue.",
     "Post receive buffers that are as long as the longest message."},
    {reason::remote_key_unknown, "remote_key_unknown", "IBV_WC_REM_ACCESS_ERR",
     "The rkey is not registered at the peer.",
     "Exchange the rkey after registration; stop using it before the peer deregisters."},
    {reason::remote_key_other_domain, "remote_key_other_domain", "IBV_WC_REM_ACCESS_ERR",
     "The rkey and the peer's queue pair belong to different protection domains.",
     "Register the memory in the protection domain of that queue pair."},
    {reason::remote_range, "remote_range", "IBV_WC_REM_ACCESS_ERR",
     "The request exceeds the peer's memory region.",
     "Check remote address and length against the region that the peer sent."},
    {reason::remote_not_mapped, "remote_not_mapped", "IBV_WC_REM_ACCESS_ERR",
     "The memory of the peer's region is not mapped, or not accessible.",
     "The peer must deregister a region before its memory is unmapped."},
    {reason::remote_access_denied, "remote_access_denied", "IBV_WC_REM_ACCESS_ERR",
     "The peer's region does not have the access flag that the request needs.",
     "Register it with IBV_ACCESS_REMOTE_WRITE, _READ or _ATOMIC."},
    {reason::qp_access_denied, "qp_access_denied", "IBV_WC_REM_INV_REQ_ERR",
     "qp_access_flags of the peer's queue pair do not permit the operation.",
     "Set the flag in ibv_modify_qp to INIT at the peer."},
    {reason::atomic_misaligned, "atomic_misaligned", "IBV_WC_REM_INV_REQ_ERR",
     "The remote address of an atomic operation is not a multiple of 8.",
     "Align the target to 8 bytes."},
    {reason::no_responder_resources, "no_responder_resources", "IBV_WC_REM_INV_REQ_ERR",
     "The peer's queue pair has max_dest_rd_atomic 0.",
     "Set max_dest_rd_atomic to at least 1 in ibv_modify_qp to RTR at the peer."},
    {reason::peer_receive_too_short, "peer_receive_too_short", "IBV_WC_REM_INV_REQ_ERR",
     "The message is longer than the peer's receive request.",
     "Post longer receive buffers at the peer, or send shorter messages."},
    {reason::peer_receive_invalid, "peer_receive_invalid", "IBV_WC_REM_OP_ERR",
     "The buffers of the peer's receive request failed their checks.",
     "Read the reason of the failed receive completion at the peer."},
    {reason::bad_request, "bad_request", "IBV_WC_REM_INV_REQ_ERR",
     "The peer's process sent a malformed request or response.",
     "Update both processes to the same version of the device."},
    {reason::peer_refused, "peer_refused",
     "IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR or IBV_WC_REM_OP_ERR",
     "The peer on another host rejected the request with a NAK, which does not carry the reason.",
     "See the asynchronous event and the failure reason of the queue pair at the peer."},
    {reason::peer_unknown, "peer_unknown", "IBV_WC_RETRY_EXC_ERR",
     "There is no queue pair with this number.",
     "Check dest_qp_num, and that the peer's queue pair still exists."},
    {reason::peer_not_ready, "peer_not_ready", "IBV_WC_RETRY_EXC_ERR",
     "The peer's queue pair is in a state in which it does not receive.",
     "Move it to RTR before the first message arrives."},
    {reason::peer_not_connected, "peer_not_connected", "IBV_WC_RETRY_EXC_ERR",
     "The peer's queue pair is connected to another queue pair.",
     "Check dest_qp_num on both sides."},
    {reason::psn_mismatch, "psn_mismatch", "IBV_WC_RETRY_EXC_ERR",
     "The PSNs of the two sides do not match.",
     "On each side, set rq_psn to the peer's sq_psn, including after a reset."},
    {reason::peer_gone, "peer_gone", "IBV_WC_RETRY_EXC_ERR",
     "The process of the peer's queue pair ended.", "Connect again when the peer has restarted."},
    {reason::peer_unreachable, "peer_unreachable", "IBV_WC_RETRY_EXC_ERR",
     "The queue pair is not on this host, or its process cannot be reached.",
     "soft0 connects processes of one user in one network namespace; with VERBENA_SOFTDEV_WIRE=on "
     "on both sides, RC, UC and UD also reach other hosts."},
    {reason::receiver_not_ready, "receiver_not_ready", "IBV_WC_RNR_RETRY_EXC_ERR",
     "The peer had no receive request posted, and the RNR retries (rnr_retry) were exhausted.",
     "Post receives before the peer sends, or use flow control."},
    {reason::no_acknowledgement, "no_acknowledgement", "IBV_WC_RETRY_EXC_ERR",
     "The peer did not answer in time.",
     "Check that its process runs, and that both sides have the same "
     "VERBENA_SOFTDEV_WIRE_KEY_FILE, or none; raise timeout or retry_cnt."},
    {reason::port_down, "port_down", "IBV_WC_RETRY_EXC_ERR", "The local port is down.",
     "Wait for IBV_EVENT_PORT_ACTIVE."},
    {reason::peer_port_down, "peer_port_down", "IBV_WC_RETRY_EXC_ERR",
     "The port of the peer is down.", "Wait until it is up, then connect again."},
    {reason::path_full, "path_full", "dropped", "The peer's process did not read its ring in time.",
     "Poll more often at the receiver, or send at a lower rate."},
    {reason::lid_mismatch, "lid_mismatch", "IBV_WC_RETRY_EXC_ERR",
     "The request was addressed to another LID than that of the peer's port.",
     "Exchange the LIDs again; they change with IBV_EVENT_LID_CHANGE."},
    {reason::partition_mismatch, "partition_mismatch", "IBV_WC_RETRY_EXC_ERR",
     "The queue pairs are not in the same partition.",
     "Use P_Keys with equal low 15 bits, at least one of them with the bit 0x8000."},
    {reason::qkey_mismatch, "qkey_mismatch", "dropped",
     "The Q_Key of the datagram is not that of the queue pair.",
     "Set wr.ud.remote_qkey to the Q_Key of the receiver."},
    {reason::transport_mismatch, "transport_mismatch", "dropped",
     "The queue pairs have different transports.", "Create both with the same qp_type."},
    {reason::flushed_after_error, "flushed_after_error", "IBV_WC_WR_FLUSH_ERR",
     "The request was flushed, because the queue pair failed earlier.",
     "Find the first failed completion of the queue pair; it has the reason."},
    {reason::flushed_by_modify, "flushed_by_modify", "IBV_WC_WR_FLUSH_ERR",
     "The request was flushed, because the queue pair was moved to the error state.",
     "No action is needed if the program did this to close the connection."},
    {reason::completion_queue_overrun, "completion_queue_overrun", "IBV_EVENT_CQ_ERR",
     "A completion queue overran.", "Create it with room for all requests of its queue pairs."},
    {reason::injected_fault, "injected_fault", "any",
     "The request failed because of a fault injected by the program or VERBENA_SOFTDEV_INJECT.",
     "No action is needed in tests of error handling; clear-faults removes all faults."},
};

}  // namespace

std::size_t describe_code(std::uint32_t code, char* text, std::size_t capacity) noexcept {
  const auto* const found = std::ranges::find(rows, static_cast<reason>(code), &row::code);
  if (found == std::end(rows)) return 0;
  const int length = std::snprintf(text, capacity, "%s\n%s\n%s\n%s", found->name, found->statuses,
                                   found->check, found->remedy);
  return length > 0 ? static_cast<std::size_t>(length) : 0;
}

}  // namespace verbena::softdev
