// SPDX-License-Identifier: MIT
// Values in network byte order, one after another. Lengths are checked by the caller, once for all
// headers of a packet.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "verbena/base/bytes.hpp"

namespace verbena::softdev::wire {

/// Takes values from the front. Borrows the bytes. Threads: one thread at a time.
class byte_source {
 public:
  explicit byte_source(std::span<const std::byte> bytes) noexcept : at_(bytes.data()) {}

  /// Precondition: as many bytes are left.
  template <std::unsigned_integral T>
  [[nodiscard]] T take() noexcept {
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return network_order(value);
  }
  void take_bytes(std::span<std::uint8_t> out) noexcept {
    std::memcpy(out.data(), at_, out.size());
    at_ += out.size();
  }
  void skip(std::size_t bytes) noexcept { at_ += bytes; }

 private:
  const std::byte* at_;
};

/// Puts values behind one another. Borrows the bytes. Threads: one thread at a time.
class byte_sink {
 public:
  explicit byte_sink(std::span<std::byte> bytes) noexcept : at_(bytes.data()) {}

  /// Precondition: there is room.
  template <std::unsigned_integral T>
  void put(T value) noexcept {
    store_network_order(at_, value);
    at_ += sizeof value;
  }
  void put_bytes(std::span<const std::byte> bytes) noexcept {
    at_ = std::ranges::copy(bytes, at_).out;
  }
  void put_bytes(std::span<const std::uint8_t> bytes) noexcept { put_bytes(std::as_bytes(bytes)); }
  /// Leaves bytes that the caller has written.
  void skip(std::size_t bytes) noexcept { at_ += bytes; }
  void put_zeros(std::size_t count) noexcept { at_ = std::fill_n(at_, count, std::byte{0}); }
  /// The place of the next value.
  [[nodiscard]] std::byte* position() const noexcept { return at_; }

 private:
  std::byte* at_;
};

}  // namespace verbena::softdev::wire
