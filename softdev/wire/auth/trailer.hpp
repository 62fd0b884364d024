// SPDX-License-Identifier: MIT
// The trailer of an authenticated packet: the bytes of a datagram behind the ICRC.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/wire/byte_cursor.hpp"

namespace verbena::softdev::wire {

inline constexpr std::size_t tag_bytes = 16;
using packet_tag = std::array<std::byte, tag_bytes>;

/// Format: marker and version (4 bytes), sender (8), sequence number (8), tag (16); numbers in
/// network byte order.
struct packet_trailer {
  static constexpr std::uint32_t marker = 0x76'62'61'31;  ///< "vba1"

  std::uint64_t sender = 0;
  std::uint64_t sequence = 0;
  packet_tag tag{};

  bool operator==(const packet_trailer&) const = default;
};

inline constexpr std::size_t trailer_bytes = 4 + 8 + 8 + tag_bytes;

/// Returns whether a datagram has a packet and a trailer. Does not check the tag.
[[nodiscard]] inline bool has_trailer(std::span<const std::byte> datagram) noexcept {
  constexpr std::size_t least_packet_bytes = 12 + 4;  // BTH and ICRC
  if (datagram.size() < least_packet_bytes + trailer_bytes) return false;
  return byte_source(datagram.last(trailer_bytes)).take<std::uint32_t>() == packet_trailer::marker;
}

/// Returns the packet of a datagram with a trailer, or the whole datagram if it has none.
[[nodiscard]] inline std::span<const std::byte> without_trailer(
    std::span<const std::byte> datagram) noexcept {
  return has_trailer(datagram) ? datagram.first(datagram.size() - trailer_bytes) : datagram;
}

/// Reads a trailer. Precondition: has_trailer(datagram).
[[nodiscard]] inline packet_trailer read_trailer(std::span<const std::byte> datagram) noexcept {
  const auto bytes = datagram.last(trailer_bytes);
  byte_source from(bytes);
  from.skip(sizeof packet_trailer::marker);
  packet_trailer out;
  out.sender = from.take<std::uint64_t>();
  out.sequence = from.take<std::uint64_t>();
  std::ranges::copy(bytes.last<tag_bytes>(), out.tag.begin());
  return out;
}

/// Writes a trailer to the end of a datagram. Precondition: the datagram has room for it.
inline void write_trailer(const packet_trailer& what, std::span<std::byte> datagram) noexcept {
  byte_sink to(datagram.last(trailer_bytes));
  to.put(packet_trailer::marker);
  to.put(what.sender);
  to.put(what.sequence);
  to.put_bytes(std::span<const std::byte>(what.tag));
}

}  // namespace verbena::softdev::wire
