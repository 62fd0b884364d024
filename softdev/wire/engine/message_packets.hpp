// SPDX-License-Identifier: MIT
// Conversion between messages and packets: opcodes, numbers of packets, payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"
#include "softdev/wire/opcode.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev {
class queue_pair;
}

namespace verbena::softdev::wire {

/// Returns the operation of packet `index` of a SEND or WRITE with `count` packets.
[[nodiscard]] operation request_operation(opcode op, std::uint32_t index,
                                          std::uint32_t count) noexcept;
/// Returns the operation of a request with one packet. READs and atomic operations always have one
/// request packet.
[[nodiscard]] operation request_operation(opcode op) noexcept;
/// Returns the operation of packet `index` of a READ response with `count` packets.
[[nodiscard]] operation read_response_operation(std::uint32_t index, std::uint32_t count) noexcept;

enum class place_in_message : std::uint8_t { first, middle, last, only };

/// The role of a request packet in its message.
struct packet_role {
  bool is_part = false;  ///< true for SEND and WRITE; if false, the other members have no meaning
  opcode what = opcode::send;
  place_in_message place = place_in_message::only;
  bool immediate = false;

  [[nodiscard]] bool begins() const noexcept {
    return place == place_in_message::first || place == place_in_message::only;
  }
  [[nodiscard]] bool ends() const noexcept {
    return place == place_in_message::last || place == place_in_message::only;
  }
};

/// Returns the role of packets with this opcode.
[[nodiscard]] packet_role role_of(packet_opcode code) noexcept;

/// Returns the number of packets of a message. An empty message has one packet.
[[nodiscard]] std::uint32_t packets_of(std::uint32_t bytes, std::uint32_t mtu) noexcept;
/// Returns the number of packets of a SEND, a WRITE, a READ response or an atomic operation.
[[nodiscard]] std::uint32_t packets_of(const message& what, std::uint32_t mtu) noexcept;

/// Sets the P_Key of a packet of `from`, and the queue pair number of its peer.
void address_to_peer(const queue_pair& from, packet& out) noexcept;
/// Returns a packet with the P_Key and the destination of a message.
[[nodiscard]] packet packet_of(const message& what) noexcept;
/// Returns the request packet of a READ or atomic operation, without its operands.
[[nodiscard]] packet single_packet_of(const message& what, std::uint32_t psn) noexcept;

/// Returns the memory of the packets from `begin` to `end` of a READ response.
[[nodiscard]] remote_range range_of_packets(const message& read, std::uint32_t begin,
                                            std::uint32_t end, std::uint32_t mtu) noexcept;

/// Convert between the operands of a message and the AtomicETH of a packet.
[[nodiscard]] atomic_operands operands_of(const message& what) noexcept;
void take_operands(const atomic_operands& from, message& out) noexcept;

/// Returns the AETH syndrome of a response; 0 if the response is not sent.
[[nodiscard]] std::uint8_t syndrome_of(const response& answer) noexcept;

/// The position of a packet in a READ response.
struct response_position {
  bool is_last = false;
  bool can_end = false;  ///< the packet can also be the last one of a part of the response
};
/// Returns whether a packet of a READ response with `bytes` of payload has the opcode, length and
/// syndrome that its position requires.
[[nodiscard]] bool is_read_response(const packet& what, std::uint32_t bytes,
                                    const response_position& where) noexcept;
/// Returns the PSN before which the responder has executed all requests if it sends `what`.
[[nodiscard]] std::uint32_t executed_before(const packet& what) noexcept;

/// Reads the payload of a message from its segments, packet by packet. Threads: one thread at a
/// time.
class payload_reader {
 public:
  /// Starts at byte `offset` of the segments.
  explicit payload_reader(std::span<const segment> pieces, std::uint64_t offset = 0) noexcept;

  /// Returns a copy of the next bytes, valid until the next call. Returns fewer bytes if the
  /// segments end or if the memory is not accessible. Precondition: bytes <= largest_mtu.
  [[nodiscard]] std::span<const std::byte> take(std::size_t bytes) noexcept;
  /// Returns the next bytes like `take`, but without a copy if one segment contains all of them. In
  /// this case, the result refers to memory of the program, which may not be accessible.
  [[nodiscard]] std::span<const std::byte> view(std::size_t bytes) noexcept;
  /// Skips bytes without access to them.
  void skip(std::uint64_t bytes) noexcept {
    offset_ += bytes;
    drop_finished();
  }
  /// Returns the start of the segment at which `take` or `view` stopped, or whose bytes `view`
  /// returned. Returns nullptr after the last segment. Precondition: `take` or `view` was called.
  [[nodiscard]] const std::byte* piece() const noexcept { return piece_; }

 private:
  void drop_finished() noexcept;

  std::span<const segment> rest_;
  std::uint64_t offset_;
  const std::byte* piece_ = nullptr;
  std::array<std::byte, largest_mtu> chunk_;
};

}  // namespace verbena::softdev::wire
