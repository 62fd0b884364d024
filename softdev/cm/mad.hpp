// SPDX-License-Identifier: MIT
// The messages of connection management between hosts: management datagrams (MADs; IBTA 12.6 to
// 12.11, 13.4) with the IP addressing of annex A11.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "softdev/cm/frame.hpp"

namespace verbena::softdev::cm {

inline constexpr std::size_t mad_bytes = 256;
using mad_view = std::span<const std::byte, mad_bytes>;

/// Attribute IDs of the class.
enum class mad_kind : std::uint16_t {
  request = 0x10,       ///< REQ
  mra = 0x11,           ///< MRA: the answer takes time
  rejection = 0x12,     ///< REJ
  reply = 0x13,         ///< REP
  ready = 0x14,         ///< RTU
  disconnect = 0x15,    ///< DREQ
  disconnected = 0x16,  ///< DREP
  sidr_request = 0x17,  ///< SIDR_REQ
  sidr_reply = 0x18,    ///< SIDR_REP
};

/// Returns whether a message begins an exchange.
[[nodiscard]] constexpr bool is_request(mad_kind kind) noexcept {
  return kind == mad_kind::request || kind == mad_kind::sidr_request;
}

/// The message to which a rejection or an MRA refers.
enum class mad_subject : std::uint8_t { request = 0, reply = 1, other = 2 };

/// A message. Only the members of its kind are used. Threads: value.
struct mad {
  mad_kind kind{};
  std::uint64_t transaction = 0;
  /// The sender's communication ID. In a SIDR exchange, both sides use that of the request.
  std::uint32_t sender_id = 0;
  std::uint32_t receiver_id = 0;  ///< the receiver's; 0 if not known
  std::uint64_t guid = 0;         ///< of the sender's device: REQ, REP
  mad_subject subject = mad_subject::other;
  std::uint8_t service_timeout = 0;    ///< 4.096 us * 2^n until the answer
  std::uint32_t rejection_reason = 0;  ///< of a request that cannot be accepted: the reject_reason
  /// The other values, as in frames between processes: addresses and port space of requests,
  /// `from`, `reason`, and private data. Private data of a received message includes the padding of
  /// its field. In a DREQ, from.queue_pair is the receiver's.
  frame content;
};

/// Reads a message. Returns `nullopt` for another class, version or method, or an unknown kind. The
/// addresses of a request are in its private data. If they are missing, or the service is not a
/// port of the connection manager, content.source.family is `none`.
[[nodiscard]] std::optional<mad> parse_mad(mad_view bytes) noexcept;

/// Writes a message. Precondition: the private data does not exceed private_limit(), and both
/// addresses have the same family.
void write_mad(const mad& what, std::span<std::byte, mad_bytes> out) noexcept;

/// Returns the receiver's communication ID, which identifies the process. Returns `nullopt` for a
/// request, whose process is identified by the port number, and for an invalid message.
[[nodiscard]] std::optional<std::uint32_t> receiver_of(mad_view bytes) noexcept;

}  // namespace verbena::softdev::cm
