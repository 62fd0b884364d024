// SPDX-License-Identifier: MIT
// Messages as packets: their operations, their number, their payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"
#include "softdev/wire/opcode.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

inline constexpr std::size_t largest_mtu = 4096;

/// Returns the operation of the packet `index` of `count` of a SEND or WRITE.
[[nodiscard]] operation request_operation(opcode op, std::uint32_t index,
                                          std::uint32_t count) noexcept;
/// Returns the operation of a request that is one packet: always of a READ or atomic operation.
[[nodiscard]] operation request_operation(opcode op) noexcept;
/// Returns the operation of the packet `index` of `count` of the response to a READ.
[[nodiscard]] operation read_response_operation(std::uint32_t index, std::uint32_t count) noexcept;

enum class place_in_message : std::uint8_t { first, middle, last, only };

/// What a packet of a request is in its message.
struct packet_role {
  bool is_part = false;  ///< of a SEND or WRITE; if not, the other members have no meaning
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

/// Returns the role of the packets with this opcode.
[[nodiscard]] packet_role role_of(packet_opcode code) noexcept;

/// Returns the number of packets of a message; an empty one has one packet.
[[nodiscard]] std::uint32_t packets_of(std::uint32_t bytes, std::uint32_t mtu) noexcept;
/// Returns the number of packets of a SEND or WRITE, of the response to a READ, or of an atomic
/// operation.
[[nodiscard]] std::uint32_t packets_of(const message& what, std::uint32_t mtu) noexcept;

/// Writes the operands of an atomic operation into a packet, and reads them.
[[nodiscard]] atomic_operands operands_of(const message& what) noexcept;
void take_operands(const atomic_operands& from, message& out) noexcept;

/// Returns the AETH syndrome of an answer; 0 for answers that are not sent.
[[nodiscard]] std::uint8_t syndrome_of(const response& answer) noexcept;

/// Reads the bytes of the pieces of a message, packet by packet. Threads: one thread at a time.
class payload_reader {
 public:
  /// Begins at `offset` of the pieces.
  explicit payload_reader(std::span<const segment> pieces, std::uint64_t offset = 0) noexcept;

  /// Returns a copy of the next bytes, valid until the next call: fewer if the pieces end, or if
  /// the memory is not accessible. Precondition: bytes <= largest_mtu.
  [[nodiscard]] std::span<const std::byte> take(std::size_t bytes) noexcept;
  /// Returns the next bytes like `take`, but without a copy if one piece has all of them. Then the
  /// result is memory of the program, which may not be accessible.
  [[nodiscard]] std::span<const std::byte> view(std::size_t bytes) noexcept;
  /// Returns the start of the piece at which `take` or `view` stopped, or whose bytes `view`
  /// returned; nullptr after the last piece. Precondition: `take` or `view` was called.
  [[nodiscard]] const std::byte* piece() const noexcept { return piece_; }

 private:
  std::span<const segment> rest_;
  std::uint64_t offset_;
  const std::byte* piece_ = nullptr;
  std::array<std::byte, largest_mtu> chunk_;
};

}  // namespace verbena::softdev::wire
