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

/// The global routing header (GRH): the first 40 bytes of the memory of a receive, if flags() of
/// the completion contains completion_flag::global_route_header.
///
/// The bytes are an IPv6 header. With RoCE v2 over IPv4, the last 20 bytes are an IPv4 header, and
/// the first 20 bytes are undefined.
/// Source: ibv_create_ah_from_wc(3), InfiniBand Architecture Specification 8.3 and A17.
/// Threads: immutable value.
struct global_route_header {
  /// The number of bytes in front of each received datagram.
  static constexpr std::size_t encoded_size = 40;

  /// The protocol of the header.
  enum class form : std::uint8_t {
    ipv6,  ///< InfiniBand, RoCE v1, RoCE v2 over IPv6
    ipv4,  ///< RoCE v2 over IPv4
  };

  form version = form::ipv6;         ///< the protocol of the header
  verbena::gid source = {};          ///< the sender; an IPv4 address is an IPv4-mapped GID
  verbena::gid destination = {};     ///< the receiver or group; as `source`
  std::uint8_t traffic_class = 0;    ///< on RoCE, the upper six bits are the DSCP
  std::uint32_t flow_label = 0;      ///< 20 bits; 0 for IPv4
  std::uint16_t payload_length = 0;  ///< number of bytes after the header
  /// The protocol after the header: 0x1b for InfiniBand transport, 17 for UDP (RoCE v2).
  std::uint8_t next_header = 0;
  std::uint8_t hop_limit = 0;  ///< the remaining hop limit (IPv4: time to live)

  /// Reads a header from the first 40 bytes of `bytes`.
  ///
  /// As in libibverbs, the header is IPv4 if the version at byte 0 is not 6 and the version at byte
  /// 20 is 4, or if an IPv4 header without options and with a correct checksum begins at byte 20.
  ///
  /// Errors: `protocol` for fewer than 40 bytes, and for bytes that are neither an IPv6 header
  /// nor an IPv4 header.
  [[nodiscard]] static result<global_route_header> decode(std::span<const std::byte> bytes);
  /// Returns bytes that decode() reads. For IPv4, the first 20 bytes and the fields without a
  /// member (identification, fragment offset) are zero.
  ///
  /// Precondition: with form::ipv4, both GIDs are IPv4-mapped, and `payload_length` is at most
  /// 65,515.
  [[nodiscard]] std::array<std::byte, encoded_size> encode() const;

  friend bool operator==(const global_route_header&, const global_route_header&) noexcept = default;
};

/// Returns `from ::ffff:192.0.2.1 to ::ffff:192.0.2.2, hop limit 64`.
[[nodiscard]] std::string to_string(const global_route_header& header);

}  // namespace verbena::inline VERBENA_ABI
