// SPDX-License-Identifier: MIT
// What travels between a requester and a responder, on whatever path.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softdev/core/failure.hpp"
#include "softdev/core/port_state.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// What a datagram says of its sender besides the queue pair number. The payload of a datagram
/// begins with route_header_bytes for its global route header.
struct datagram_origin {
  std::uint16_t lid = 0;
  std::uint8_t service_level = 0;
  std::uint8_t path_bits = 0;  ///< of the destination's LID
  bool has_route = false;      ///< the route header means something
};

/// A request as the responder sees it, without its payload.
struct message {
  softdev::opcode opcode = opcode::send;
  bool solicited = false;
  /// Counts the requester's new beginnings; answers repeat it, so that late ones are recognised.
  std::uint16_t attempt = 0;
  std::uint16_t partition = default_partition;  ///< the requester's P_Key
  std::uint16_t destination_lid = 0;            ///< 0 where ports have none
  std::uint32_t source_qpn = 0;
  std::uint32_t destination_qpn = 0;
  std::uint32_t psn = 0;
  std::uint32_t immediate = 0;
  std::uint32_t length = 0;  ///< payload; for a read, bytes wanted
  std::uint32_t remote_key = 0;
  std::uint32_t qkey = 0;  ///< of UD and SRD
  softdev::transport transport = softdev::transport::rc;
  /// How the request leaves its queue pair. A responder does not look at it.
  path_to_peer by = path_to_peer::same_host;
  datagram_origin origin;  ///< of UD
  std::uint64_t remote_address = 0;
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;
};

/// Which request an answer is about, and which queue pair answers.
struct request_id {
  std::uint32_t from = 0;  ///< the number of the queue pair that answers
  std::uint32_t psn = 0;
  std::uint16_t attempt = 0;
};

/// What became of a request.
enum class verdict : std::uint8_t {
  done,
  pending,             ///< on its way; the answer comes later (remote paths only)
  partial,             ///< begun, then as `blocked`; the next call goes on (remote paths only)
  blocked,             ///< no room now; the path runs the queue pair when there is (remote paths)
  receiver_not_ready,  ///< no receive request; try again after the RNR timer
  no_answer,           ///< nobody there that answers; try again after the timeout
  unread,              ///< the responder cannot read the payload; try again at once (remote paths)
  peer_gone,           ///< never again
  invalid_request,     ///< refused: the request itself
  access_error,        ///< refused: key, range or rights
  operation_error,     ///< refused: the responder cannot
  local_protection_error,  ///< the requester's memory is not accessible; never sent to a peer
};

/// What the requester's completion says of a refusal; of any other verdict, that the answer is bad.
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

/// A verdict with what goes with it.
struct response {
  verdict outcome = verdict::done;
  std::uint8_t rnr_timer = 0;  ///< code; with receiver_not_ready
  bool direct = false;         ///< with done: the responder knows nothing of it, nor of its psn
  /// As many requests behind it were taken, too, with the same outcome: `done` if `direct`, else
  /// `pending` (requester::prepare_following).
  std::uint8_t followers = 0;
  std::uint64_t original = 0;  ///< of an atomic; of a pending request of SRD, bytes on their way
  failure why;                 ///< unless done
};

/// The verdict about a request whose local memory at `piece` is not accessible.
[[nodiscard]] inline response local_fault(const std::byte* piece) noexcept {
  return {
      .outcome = verdict::local_protection_error,
      .why = {.why = reason::local_not_mapped, .address = reinterpret_cast<std::uint64_t>(piece)}};
}

/// A piece of this process's memory that was checked. Without initial values, because the data
/// path has arrays of them.
struct segment {
  std::byte* data;
  std::size_t bytes;
};

}  // namespace verbena::softdev
