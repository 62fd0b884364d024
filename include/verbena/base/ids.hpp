// SPDX-License-Identifier: MIT
// Strong types for keys, queue pair numbers, packet sequence numbers, ports and GID indexes.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>  // std::hash
#include <utility>

#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI {

/// Wraps an integer of one meaning without implicit conversions; ordered and hashable.
/// Threads: immutable value.
template <class Tag, class Representation>
class strong_id {
 public:
  /// The wrapped integer type.
  using representation = Representation;

  /// Makes the identifier 0.
  constexpr strong_id() noexcept = default;
  /// Makes an identifier of `value`. Precondition: the representation can hold `value`.
  template <std::integral Integer>
  constexpr explicit strong_id(Integer value) : value_(static_cast<Representation>(value)) {
    VERBENA_ASSERT(std::in_range<Representation>(value),
                   "a number is out of the range of the identifier that is made of it");
  }
  /// Returns the integer.
  [[nodiscard]] constexpr Representation value() const noexcept { return value_; }
  friend constexpr auto operator<=>(strong_id, strong_id) noexcept = default;

 private:
  Representation value_ = 0;
};

/// The key of a memory region for local access (`lkey`).
using local_key = strong_id<struct local_key_tag, std::uint32_t>;
/// The key of a memory region or memory window for remote access (`rkey`).
using remote_key = strong_id<struct remote_key_tag, std::uint32_t>;
/// The key that a datagram must carry to be accepted by a queue pair (`qkey`). If the most
/// significant bit of a sender's key is set, the device sends the Q_Key of the sending queue pair.
using queue_key = strong_id<struct queue_key_tag, std::uint32_t>;
/// The number of a port of a device, counted from 1.
using port_number = strong_id<struct port_number_tag, std::uint8_t>;
/// An index into the GID table of a port.
using gid_index = strong_id<struct gid_index_tag, std::uint8_t>;
/// A local identifier (LID) on InfiniBand; 0 on Ethernet.
using lid = strong_id<struct lid_tag, std::uint16_t>;

/// Holds a 24-bit number: a queue pair number or a packet sequence number.
/// Threads: immutable value.
template <class Tag>
class id24 {
 public:
  /// The largest value.
  static constexpr std::uint32_t max = 0xff'ffff;

  /// Makes the number 0.
  constexpr id24() noexcept = default;
  /// Makes a number of `value`. Precondition: value <= 0xffffff.
  constexpr explicit id24(std::uint32_t value) : value_(value) {
    VERBENA_ASSERT(value <= max,
                   "a queue pair number or packet sequence number exceeds 24 bits (0xffffff)");
  }
  /// Returns the number.
  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }
  friend constexpr auto operator<=>(id24, id24) noexcept = default;

 private:
  std::uint32_t value_ = 0;
};

/// The number of a queue pair of a device (`qp_num`).
using queue_pair_number = id24<struct queue_pair_number_tag>;
/// The sequence number of a packet (PSN, `sq_psn` and `rq_psn`).
using packet_sequence_number = id24<struct packet_sequence_number_tag>;

}  // namespace verbena::inline VERBENA_ABI

/// Hashes an identifier.
template <class Tag, class Representation>
struct std::hash<verbena::strong_id<Tag, Representation>> {
  /// Returns the hash of id.value().
  std::size_t operator()(verbena::strong_id<Tag, Representation> id) const noexcept {
    return std::hash<Representation>{}(id.value());
  }
};
/// Hashes an identifier.
template <class Tag>
struct std::hash<verbena::id24<Tag>> {
  /// Returns the hash of id.value().
  std::size_t operator()(verbena::id24<Tag> id) const noexcept {
    return std::hash<std::uint32_t>{}(id.value());
  }
};
