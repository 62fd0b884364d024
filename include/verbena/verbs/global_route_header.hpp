// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "verbena/base/guid.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

/// What stands in front of received datagrams: the first 40 bytes of the receive's memory, if
/// flags() of the completion have `global_route_header`. Either an IPv6 header or, of RoCE v2 over
/// IPv4, an IPv4 header in the last 20 of the bytes; the first 20 are then undefined.
/// Source: ibv_create_ah_from_wc(3), InfiniBand Architecture Specification 8.3 and A17.
/// Threads: immutable value.
struct global_route_header {
  /// Bytes in front of every datagram.
  static constexpr std::size_t encoded_size = 40;

  /// Which of the two forms it has.
  enum class form : std::uint8_t {
    ipv6,  ///< InfiniBand, RoCE v1, RoCE v2 over IPv6
    ipv4,  ///< RoCE v2 over IPv4
  };

  form version = form::ipv6;         ///< the form
  verbena::gid source = {};          ///< IPv4 addresses are mapped
  verbena::gid destination = {};     ///< IPv4 addresses are mapped
  std::uint8_t traffic_class = 0;    ///< on RoCE: DSCP in the upper six bits
  std::uint32_t flow_label = 0;      ///< 20 bits; 0 of an IPv4 header
  std::uint16_t payload_length = 0;  ///< bytes behind the header
  /// What follows: 0x1b a header of InfiniBand, 17 UDP (RoCE v2).
  std::uint8_t next_header = 0;
  std::uint8_t hop_limit = 0;  ///< how many routers it could have passed yet

  /// Reads the first 40 of `bytes`. Which form they have is decided as libibverbs does: it is IPv4
  /// when an IPv4 header without options and with the right checksum stands at byte 20, or when the
  /// version at byte 0 is not 6 and the one at byte 20 is 4.
  ///
  /// Errors: `protocol` for fewer than 40 bytes, and for bytes that are neither.
  [[nodiscard]] static result<global_route_header> decode(std::span<const std::byte> bytes);
  /// The bytes that decode() reads. Of an IPv4 header, the parts that are not here are zero, and
  /// so are the 20 bytes in front of it. Precondition: with form::ipv4 both GIDs are mapped, and
  /// `payload_length` is at most 65,515.
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const;

  friend bool operator==(const global_route_header&, const global_route_header&) noexcept = default;
};

/// `from ::ffff:192.0.2.1 to ::ffff:192.0.2.2, hop limit 64`.
[[nodiscard]] std::string to_string(const global_route_header& header);

}  // namespace verbena::inline VERBENA_ABI
