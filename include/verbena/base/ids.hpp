// SPDX-License-Identifier: MIT
// Numbers that must not be mixed up: keys, queue pair numbers, sequence numbers, ports.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI {

/// An integer with a meaning: explicit in, explicit out, ordered, hashable. Threads: immutable.
template <class Tag, class Representation>
class strong_id {
 public:
  /// The integer that it is.
  using representation = Representation;

  constexpr strong_id() noexcept = default;
  /// The identifier that `value` stands for.
  constexpr explicit strong_id(Representation value) noexcept : value_(value) {}
  /// The integer.
  [[nodiscard]] constexpr Representation value() const noexcept { return value_; }
  friend constexpr auto operator<=>(strong_id, strong_id) noexcept = default;

 private:
  Representation value_ = 0;
};

/// The key that names a memory region in local work requests (`lkey`).
using local_key = strong_id<struct local_key_tag, std::uint32_t>;
/// The key that a peer presents to reach a memory region (`rkey`).
using remote_key = strong_id<struct remote_key_tag, std::uint32_t>;
/// What datagrams carry to be let in by a queue pair (`qkey`). A sender's key with the top bit set
/// means the key of its own queue pair.
using queue_key = strong_id<struct queue_key_tag, std::uint32_t>;
/// The number of a port of a device; ports count from 1.
using port_number = strong_id<struct port_number_tag, std::uint8_t>;
/// A position in a port's GID table.
using gid_index = strong_id<struct gid_index_tag, std::uint8_t>;
/// A local identifier on InfiniBand; 0 on Ethernet.
using lid = strong_id<struct lid_tag, std::uint16_t>;

/// A number of 24 bits, as queue pair numbers and packet sequence numbers are.
/// Threads: immutable value.
template <class Tag>
class id24 {
 public:
  /// The largest value.
  static constexpr std::uint32_t max = 0xff'ffff;

  constexpr id24() noexcept = default;
  /// Precondition: value <= 0xffffff.
  constexpr explicit id24(std::uint32_t value) : value_(value) {
    VERBENA_ASSERT(value <= max, "a queue pair number or packet sequence number has 24 bits");
  }
  /// The number.
  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }
  friend constexpr auto operator<=>(id24, id24) noexcept = default;

 private:
  std::uint32_t value_ = 0;
};

/// The number of a queue pair on its device (`qp_num`).
using queue_pair_number = id24<struct queue_pair_number_tag>;
/// The sequence number of a packet (`psn`).
using packet_sequence_number = id24<struct packet_sequence_number_tag>;

}  // namespace verbena::inline VERBENA_ABI

/// Hashes the value.
template <class Tag, class Representation>
struct std::hash<verbena::strong_id<Tag, Representation>> {
  /// The hash of id.value().
  std::size_t operator()(verbena::strong_id<Tag, Representation> id) const noexcept {
    return std::hash<Representation>{}(id.value());
  }
};
/// Hashes the value.
template <class Tag>
struct std::hash<verbena::id24<Tag>> {
  /// The hash of id.value().
  std::size_t operator()(verbena::id24<Tag> id) const noexcept {
    return std::hash<std::uint32_t>{}(id.value());
  }
};
