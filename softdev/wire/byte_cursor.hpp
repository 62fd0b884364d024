// SPDX-License-Identifier: MIT
// Sequential readers and writers of values in network byte order. They do not check lengths: the
// caller checks the length of all headers of a packet at once.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "verbena/base/bytes.hpp"

namespace verbena::softdev::wire {

/// Reads values from the front of a byte range. Borrows the bytes. Threads: one thread at a time.
class byte_source {
 public:
  explicit byte_source(std::span<const std::byte> bytes) noexcept : at_(bytes.data()) {}

  /// Precondition: at least sizeof(T) bytes are left. The other functions have the same
  /// precondition for their number of bytes.
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

/// Writes values one after another to a byte range. Borrows the bytes. Threads: one thread at a
/// time.
class byte_sink {
 public:
  explicit byte_sink(std::span<std::byte> bytes) noexcept : at_(bytes.data()) {}

  /// Precondition: at least sizeof(T) bytes are left. The other functions have the same
  /// precondition for their number of bytes.
  template <std::unsigned_integral T>
  void put(T value) noexcept {
    store_network_order(at_, value);
    at_ += sizeof value;
  }
  void put_bytes(std::span<const std::byte> bytes) noexcept {
    at_ = std::ranges::copy(bytes, at_).out;
  }
  void put_bytes(std::span<const std::uint8_t> bytes) noexcept { put_bytes(std::as_bytes(bytes)); }
  /// Skips bytes that the caller has written.
  void skip(std::size_t bytes) noexcept { at_ += bytes; }
  void put_zeros(std::size_t count) noexcept { at_ = std::fill_n(at_, count, std::byte{0}); }
  /// Returns the position of the next value.
  [[nodiscard]] std::byte* position() const noexcept { return at_; }

 private:
  std::byte* at_;
};

}  // namespace verbena::softdev::wire
