// SPDX-License-Identifier: MIT
// Global identifiers of devices and ports, stored in network byte order as in verbs.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI {

/// Holds a 64-bit global identifier (EUI-64). Threads: immutable value.
class guid {
 public:
  /// Makes the reserved GUID, all bytes zero.
  constexpr guid() noexcept = default;
  /// Makes an identifier from its bytes in wire order.
  constexpr explicit guid(std::array<std::uint8_t, 8> bytes) noexcept : bytes_(bytes) {}
  /// Makes a GUID from a `__be64` of the verbs API. Copies its bytes in memory unchanged.
  [[nodiscard]] static guid from_network_order(std::uint64_t be64) noexcept;
  /// Makes a GUID from a number whose most significant byte is the first byte on the wire.
  [[nodiscard]] static constexpr guid from_number(std::uint64_t number) noexcept {
    guid made;
    for (std::size_t i = 0; i < 8; ++i)
      made.bytes_[i] = static_cast<std::uint8_t>(number >> (56 - 8 * i));
    return made;
  }

  /// Returns the bytes in wire order.
  [[nodiscard]] constexpr const std::array<std::uint8_t, 8>& bytes() const noexcept {
    return bytes_;
  }
  /// Returns the GUID as a number whose most significant byte is the first byte on the wire.
  [[nodiscard]] constexpr std::uint64_t number() const noexcept {
    std::uint64_t number = 0;
    for (const auto byte : bytes_) number = number << 8 | byte;
    return number;
  }
  /// Returns the organisation identifier (OUI): the upper 24 bits.
  [[nodiscard]] constexpr std::uint32_t oui() const noexcept {
    return static_cast<std::uint32_t>(number() >> 40);
  }
  /// Returns whether all bytes are zero. Such a GUID does not identify a device.
  [[nodiscard]] constexpr bool is_reserved() const noexcept { return number() == 0; }
  friend constexpr auto operator<=>(const guid&, const guid&) noexcept = default;

 private:
  std::array<std::uint8_t, 8> bytes_{};
};

/// Formats a GUID like `0002:c903:00a0:7c8e`.
[[nodiscard]] std::string to_string(guid id);

/// Holds the 128-bit global identifier (GID) of a port: an IPv6 or an IPv4-mapped address.
/// Threads: immutable value.
class gid {
 public:
  /// Makes the zero GID.
  constexpr gid() noexcept = default;
  /// Makes an identifier from its bytes in wire order.
  constexpr explicit gid(std::array<std::uint8_t, 16> bytes) noexcept : bytes_(bytes) {}

  /// Returns the bytes in wire order.
  [[nodiscard]] constexpr const std::array<std::uint8_t, 16>& bytes() const noexcept {
    return bytes_;
  }
  /// Returns the upper 64 bits as a number in host byte order.
  [[nodiscard]] std::uint64_t subnet_prefix() const noexcept;
  /// Returns the lower 64 bits as a number in host byte order.
  [[nodiscard]] std::uint64_t interface_id() const noexcept;
  /// Returns whether the GID is an IPv4-mapped address, `::ffff:a.b.c.d`.
  [[nodiscard]] bool is_ipv4_mapped() const noexcept;
  /// Returns whether the GID is a link-local address, fe80::/10.
  [[nodiscard]] constexpr bool is_link_local() const noexcept {
    return bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
  }
  /// Returns whether all bytes are zero, as in an empty entry of a GID table.
  [[nodiscard]] constexpr bool is_zero() const noexcept { return *this == gid(); }
  friend constexpr auto operator<=>(const gid&, const gid&) noexcept = default;

 private:
  std::array<std::uint8_t, 16> bytes_{};
};

/// Formats a GID as an IPv6 address: `fe80::1`, `::ffff:192.0.2.1`.
[[nodiscard]] std::string to_string(const gid& id);
/// Parses an IPv6 address, or an IPv4 address and maps it. Returns nullopt if `text` is neither.
[[nodiscard]] std::optional<gid> parse_gid(const std::string& text);

}  // namespace verbena::inline VERBENA_ABI

/// Hashes a GUID.
template <>
struct std::hash<verbena::guid> {
  /// Returns the hash of id.number().
  std::size_t operator()(const verbena::guid& id) const noexcept {
    return std::hash<std::uint64_t>{}(id.number());
  }
};
/// Hashes a GID.
template <>
struct std::hash<verbena::gid> {
  /// Combines the hashes of the upper and the lower 64 bits.
  std::size_t operator()(const verbena::gid& id) const noexcept {
    const auto upper = std::hash<std::uint64_t>{}(id.subnet_prefix());
    const auto lower = std::hash<std::uint64_t>{}(id.interface_id());
    return lower ^ (upper * 0x9e37'79b9'7f4a'7c15);
  }
};
