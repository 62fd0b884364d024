// SPDX-License-Identifier: MIT
// The messages between a requester and a responder, on any path.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softdev/core/failure.hpp"
#include "softdev/core/port_state.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// The data of a datagram about its sender, besides the queue pair number. The payload of a
/// datagram begins with `grh_bytes` for its global routing header (GRH).
struct datagram_origin {
  std::uint16_t lid = 0;
  std::uint8_t service_level = 0;
  std::uint8_t path_bits = 0;  ///< of the destination's LID
  bool has_grh = false;        ///< the route header is valid
};

/// A request as the responder sees it, without its payload.
struct message {
  softdev::opcode opcode = opcode::send;
  bool solicited : 1 = false;
  bool signaled : 1 = false;  ///< the requester adds a completion when it succeeds
  /// Counts the requester's attempts. Answers repeat it, so that late answers are recognized.
  std::uint16_t attempt = 0;
  std::uint16_t pkey = default_partition;  ///< the requester's P_Key
  std::uint16_t destination_lid = 0;       ///< 0 if ports have no LID
  std::uint32_t source_qpn = 0;
  std::uint32_t destination_qpn = 0;
  std::uint32_t psn = 0;
  std::uint32_t immediate = 0;
  std::uint32_t length = 0;  ///< of the payload; of a read, the bytes to read
  std::uint32_t remote_key = 0;
  std::uint32_t qkey = 0;  ///< of UD and SRD
  softdev::transport transport = softdev::transport::rc;
  /// The path by which the request leaves its queue pair. Responders ignore it.
  path_to_peer by = path_to_peer::same_host;
  datagram_origin origin;  ///< of UD
  /// Of SRD: the bytes of the request that earlier parts carried. `length` is that of this part.
  std::uint32_t earlier_bytes = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;
};

/// Identifies the request of an answer, and the queue pair that answers.
struct request_id {
  std::uint32_t from = 0;  ///< the number of the queue pair that answers
  std::uint32_t psn = 0;
  std::uint16_t attempt = 0;
};

/// The outcome of a request.
enum class verdict : std::uint8_t {
  done,
  pending,             ///< in flight; the answer arrives later (remote paths only)
  partial,             ///< partly sent, then as `blocked`; the next call continues (remote paths)
  blocked,             ///< no room; the path runs the queue pair once it has room (remote paths)
  receiver_not_ready,  ///< no receive request; try again after the RNR timer
  no_answer,           ///< no responder answers; try again after the timeout
  unread,              ///< the responder cannot read the payload; try again at once (remote paths)
  peer_gone,           ///< do not try again
  invalid_request,     ///< refused: the request itself
  access_error,        ///< refused: key, range or rights
  operation_error,     ///< refused: the responder cannot execute it
  local_protection_error,  ///< the requester's memory is not accessible; never sent to a peer
};

/// Returns the requester's completion status for a refusal; for other verdicts, that of a bad
/// answer.
[[nodiscard]] constexpr completion_status status_of(verdict refusal) noexcept {
  switch (refusal) {
    case verdict::invalid_request:
      return completion_status::remote_invalid_request;
    case verdict::access_error:
      return completion_status::remote_access_error;
    case verdict::operation_error:
      return completion_status::remote_operation_error;
    case verdict::local_protection_error:
      return completion_status::local_protection_error;
    case verdict::peer_gone:
      return completion_status::retry_exceeded;
    default:
      return completion_status::bad_response_error;
  }
}

/// A verdict and its values.
struct response {
  verdict outcome = verdict::done;
  std::uint8_t rnr_timer = 0;  ///< code; with receiver_not_ready
  bool direct = false;         ///< with done: the responder knows neither the request nor its psn
  /// The number of following requests that were taken, too (requester::prepare_following). Their
  /// outcome is `done` if `direct`, otherwise `pending`.
  std::uint8_t followers = 0;
  bool moved = false;          ///< with partial: this call has sent a part of the message
  std::uint64_t original = 0;  ///< of an atomic; of a pending request of SRD, bytes in flight
  failure why;                 ///< unless done
};

/// Returns the response to a request whose local memory at `piece` is not accessible.
[[nodiscard]] inline response local_fault(const std::byte* piece) noexcept {
  return {
      .outcome = verdict::local_protection_error,
      .why = {.why = reason::local_not_mapped, .address = reinterpret_cast<std::uint64_t>(piece)}};
}

/// A range of this process's memory that was checked. It has no initial values, because the data
/// path has arrays of segments.
struct segment {
  std::byte* data;
  std::size_t bytes;
};

}  // namespace verbena::softdev
