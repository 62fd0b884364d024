// SPDX-License-Identifier: MIT
// The records that the engines of two processes exchange through a ring. A receiver copies a header
// once to private memory and checks the copy; the bytes after it are copied to their destination
// unchanged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <span>

#include "softdev/core/message.hpp"
#include "softdev/core/transport/rules.hpp"

namespace verbena::softdev::records {

enum type : std::uint16_t {
  request = 1,   ///< request_header, then payload (all of it or its first part)
  fragment = 2,  ///< fragment_header, then more payload of the request before
  answer = 3,    ///< answer_header, then maybe failure_numbers
  data = 4,      ///< fragment_header, then bytes of a read's answer
  /// request_header, reference_header, then elements: the payload stays in the requester's memory
  reference = 5,
};

/// A request. Operands follow it only for an atomic. It has 40 bytes, so that a small message fits
/// in one cache line. For a datagram, `remote_address` contains the origin and `remote_key` the
/// Q_Key.
struct request_header {
  std::uint32_t destination_qpn;
  std::uint32_t source_qpn;
  std::uint32_t psn;
  std::uint16_t attempt;
  std::uint8_t opcode;
  std::uint8_t kind;  ///< the transport, `solicited_bit` and `signaled_bit`
  std::uint32_t length;
  std::uint32_t immediate;
  std::uint64_t remote_address;
  std::uint32_t remote_key;
  std::uint16_t pkey;
  std::uint16_t destination_lid;
};
static_assert(sizeof(request_header) == 40);
inline constexpr std::uint8_t solicited_bit = 0x80;
inline constexpr std::uint8_t signaled_bit = 0x40;

struct operands {
  std::uint64_t compare_or_add;
  std::uint64_t swap;
};

/// Follows a request over SRD. Such a request is sent whole, or in parts, each of which is a
/// separate request.
struct delivery_header {
  std::uint32_t qkey;
  std::uint32_t earlier_bytes;  ///< that earlier parts carried
};

/// More bytes of a message: identifies the message and the offset of the bytes.
struct fragment_header {
  std::uint32_t destination_qpn;
  std::uint32_t source_qpn;
  std::uint32_t psn;
  std::uint32_t attempt;
  std::uint64_t offset;
};
static_assert(sizeof(fragment_header) == 24);

/// Follows a request whose payload the responder copies from the requester's memory.
struct reference_header {
  std::uint64_t generation;  ///< valid while the queue pair publishes the same number
  std::uint32_t elements;    ///< number of `sge` that follow
  std::uint32_t reserved;
};
static_assert(sizeof(reference_header) == 16);

/// The outcome of a request.
struct answer_header {
  std::uint32_t destination_qpn;
  std::uint32_t source_qpn;
  std::uint32_t psn;
  std::uint16_t attempt;
  std::uint8_t outcome;
  std::uint8_t rnr_timer;
  std::uint64_t original;
  std::uint32_t why;
  std::uint32_t detail;
  std::uint32_t extra;
  std::uint32_t key;
};
static_assert(sizeof(answer_header) == 40);

/// The numbers of a failure that do not fit into its answer.
struct failure_numbers {
  std::uint64_t address;
  std::uint64_t length;
  std::uint64_t base;
  std::uint64_t limit;
};

/// Copies a header from the front of `bytes` and steps over it.
template <class Header>
[[nodiscard]] std::optional<Header> take(std::span<const std::byte>& bytes) noexcept {
  if (bytes.size() < sizeof(Header)) return std::nullopt;
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes = bytes.subspan(sizeof header);
  return header;
}
/// Makes a header at the front of `room` and steps over it. The caller sets each member: a copy of
/// a header that was just made would wait for the stores of its members.
template <class Header>
[[nodiscard]] Header& make(std::span<std::byte>& room) noexcept {
  auto* const made = ::new (room.data()) Header;
  room = room.subspan(sizeof(Header));
  return *made;
}
/// Copies a header to the front of `room` and steps over it.
template <class Header>
void put(std::span<std::byte>& room, const Header& header) noexcept {
  std::memcpy(room.data(), &header, sizeof header);
  room = room.subspan(sizeof header);
}

/// The most payload of one record: long enough for fast copies, short enough that both sides copy
/// at the same time.
inline constexpr std::uint32_t payload_bytes = 32768;
/// Fills `room` with the bytes of `pieces` from `offset` on. Returns the piece that is not
/// accessible, or nullptr. Precondition: `pieces` have enough bytes.
[[nodiscard]] const std::byte* put_payload(std::span<std::byte> room,
                                           std::span<const segment> pieces,
                                           std::uint64_t offset) noexcept;

/// Returns the number of bytes of a request's headers.
[[nodiscard]] inline std::uint32_t request_bytes(transport kind, opcode op) noexcept {
  return static_cast<std::uint32_t>(
      sizeof(request_header) + (is_atomic(op) ? sizeof(operands) : 0) +
      (rules_of(kind).mode == delivery_mode::parts ? sizeof(delivery_header) : 0));
}
void put_request(std::span<std::byte>& room, const message& what) noexcept;
/// A part of a request that is sent as a separate request.
struct request_part {
  softdev::opcode opcode = softdev::opcode::send;
  std::uint32_t length = 0;
};
void put_request_part(std::span<std::byte>& room, const message& what,
                      const request_part& part) noexcept;
/// Decodes a request into `out`, which is a new message. Returns false if the bytes are not a valid
/// request.
[[nodiscard]] bool take_request(std::span<const std::byte>& bytes, message& out) noexcept;

/// The place of a payload in registered memory of the requester.
struct payload_reference {
  std::uint64_t generation = 0;
  std::uint32_t count = 0;
  std::array<sge, limits::max_sges> elements;

  [[nodiscard]] std::span<const sge> list() const noexcept { return {elements.data(), count}; }
};
/// Returns the number of bytes of a request by reference.
[[nodiscard]] std::uint32_t reference_bytes(transport kind, opcode op,
                                            std::size_t elements) noexcept;
/// Puts the headers of a request by reference. The caller puts the elements behind them.
void put_reference(std::span<std::byte>& room, const message& what, std::uint64_t generation,
                   std::size_t elements) noexcept;
/// Decodes a request by reference into `out` and `payload`, which are new. Returns false if the
/// bytes are not a valid request of this kind. Copies the elements once; does not check their
/// memory.
[[nodiscard]] bool take_reference(std::span<const std::byte> bytes, message& out,
                                  payload_reference& payload) noexcept;

[[nodiscard]] std::uint32_t answer_bytes(const response& what) noexcept;
void put_answer(std::span<std::byte>& room, const fragment_header& to,
                const response& what) noexcept;
struct taken_answer {
  fragment_header to{};
  response what;
};
[[nodiscard]] std::optional<taken_answer> take_answer(std::span<const std::byte>& bytes) noexcept;

}  // namespace verbena::softdev::records
