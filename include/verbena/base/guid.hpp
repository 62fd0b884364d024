// SPDX-License-Identifier: MIT
// Global identifiers of devices and ports, kept in network order as verbs keep them.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI {

/// A 64-bit global identifier (EUI-64). Threads: immutable value.
class guid {
 public:
  constexpr guid() noexcept = default;
  /// Of its bytes, the first on the wire first.
  constexpr explicit guid(std::array<std::uint8_t, 8> bytes) noexcept : bytes_(bytes) {}
  /// From a `__be64` as verbs give it: its bytes in memory are taken unchanged.
  [[nodiscard]] static guid from_network_order(std::uint64_t be64) noexcept;
  /// From a number whose most significant byte is the first on the wire.
  [[nodiscard]] static constexpr guid from_number(std::uint64_t number) noexcept {
    guid made;
    for (std::size_t i = 0; i < 8; ++i)
      made.bytes_[i] = static_cast<std::uint8_t>(number >> (56 - 8 * i));
    return made;
  }

  /// Its bytes, the first on the wire first.
  [[nodiscard]] constexpr const std::array<std::uint8_t, 8>& bytes() const noexcept {
    return bytes_;
  }
  /// As a number whose most significant byte is the first on the wire.
  [[nodiscard]] constexpr std::uint64_t number() const noexcept {
    std::uint64_t number = 0;
    for (const auto byte : bytes_) number = number << 8 | byte;
    return number;
  }
  /// The organisation's identifier: the top 24 bits.
  [[nodiscard]] constexpr std::uint32_t oui() const noexcept {
    return static_cast<std::uint32_t>(number() >> 40);
  }
  /// All zero: no identifier.
  [[nodiscard]] constexpr bool is_reserved() const noexcept { return number() == 0; }
  friend constexpr auto operator<=>(const guid&, const guid&) noexcept = default;

 private:
  std::array<std::uint8_t, 8> bytes_{};
};

/// `0002:c903:00a0:7c8e`.
[[nodiscard]] std::string to_string(guid id);

/// A 128-bit global identifier of a port: an IPv6 address, or an IPv4 address mapped into one.
/// Threads: immutable value.
class gid {
 public:
  constexpr gid() noexcept = default;
  /// Of its bytes, the first on the wire first.
  constexpr explicit gid(std::array<std::uint8_t, 16> bytes) noexcept : bytes_(bytes) {}

  /// Its bytes, the first on the wire first.
  [[nodiscard]] constexpr const std::array<std::uint8_t, 16>& bytes() const noexcept {
    return bytes_;
  }
  /// The upper 64 bits, as a number.
  [[nodiscard]] std::uint64_t subnet_prefix() const noexcept;
  /// The lower 64 bits, as a number.
  [[nodiscard]] std::uint64_t interface_id() const noexcept;
  /// `::ffff:a.b.c.d`: a RoCE GID made from an IPv4 address.
  [[nodiscard]] bool is_ipv4_mapped() const noexcept;
  /// fe80::/10.
  [[nodiscard]] constexpr bool is_link_local() const noexcept {
    return bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
  }
  /// All zero: an empty entry of a GID table.
  [[nodiscard]] constexpr bool is_zero() const noexcept { return *this == gid(); }
  friend constexpr auto operator<=>(const gid&, const gid&) noexcept = default;

 private:
  std::array<std::uint8_t, 16> bytes_{};
};

/// As an IPv6 address: `fe80::1`, `::ffff:192.0.2.1`.
[[nodiscard]] std::string to_string(const gid& id);
/// The GID that an IPv6 or IPv4 (then mapped) address in text means; nothing if it is neither.
[[nodiscard]] std::optional<gid> parse_gid(const std::string& text);

}  // namespace verbena::inline VERBENA_ABI
