// SPDX-License-Identifier: MIT
// The messages of connection management between hosts: the bytes of management datagrams (MADs;
// IBTA 12.6 to 12.11, 13.4), with the IP addressing of annex A11.
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
  working = 0x11,       ///< MRA: the answer takes time
  rejection = 0x12,     ///< REJ
  reply = 0x13,         ///< REP
  ready = 0x14,         ///< RTU
  disconnect = 0x15,    ///< DREQ
  disconnected = 0x16,  ///< DREP
  lookup = 0x17,        ///< SIDR_REQ
  lookup_reply = 0x18,  ///< SIDR_REP
};

/// True for the messages that begin a conversation.
[[nodiscard]] constexpr bool is_request(mad_kind kind) noexcept {
  return kind == mad_kind::request || kind == mad_kind::lookup;
}

/// The message that a rejection or a `working` is about.
enum class mad_subject : std::uint8_t { request = 0, reply = 1, other = 2 };

/// A message. Only those members count that messages of its kind have. Threads: value.
struct mad {
  mad_kind kind{};
  std::uint64_t transaction = 0;
  /// The sender's number of the conversation; of look-ups, both sides use the one of the request.
  std::uint32_t sender_id = 0;
  std::uint32_t receiver_id = 0;  ///< the receiver's; 0 if it has said none
  std::uint64_t guid = 0;         ///< of the sender's device: REQ, REP
  mad_subject subject = mad_subject::other;
  std::uint8_t working_time = 0;  ///< 4.096 us * 2^n until the answer
  std::uint32_t refusal = 0;      ///< of a request that cannot be accepted: the reject_reason
  /// The rest, as between processes: addresses and port space of requests, `from`, `reason`, and
  /// private data. Private data of received messages has all bytes that the message has room for.
  /// In a DREQ, from.queue_pair is the receiver's.
  frame content;
};

/// Reads a message. nullopt: another class, version or method, or an unknown kind. Addresses of
/// requests come from their private data; without that header, or for a service that is no port of
/// the connection manager, content.source.family is `none`.
[[nodiscard]] std::optional<mad> parse_mad(mad_view bytes) noexcept;

/// Writes a message. Precondition: the private data is within private_limit(), addresses are of one
/// family.
void write_mad(const mad& what, std::span<std::byte, mad_bytes> out) noexcept;

/// The number of the conversation at the receiver, by which the process is found; nullopt for a
/// request, which a port number finds, and for what is no message.
[[nodiscard]] std::optional<std::uint32_t> receiver_of(mad_view bytes) noexcept;

}  // namespace verbena::softdev::cm
