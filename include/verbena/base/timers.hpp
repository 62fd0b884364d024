// SPDX-License-Identifier: MIT
// The encoded times of reliable transports. Conversions from a duration round up, so that a wait is
// never shorter than requested. Source: InfiniBand Architecture Specification 9.7.5.2.8 and 11.6.2,
// ibv_modify_qp(3).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <ratio>
#include <string>

#include "verbena/base/assert.hpp"
#include "verbena/base/detail/saturating_cast.hpp"

namespace verbena::inline VERBENA_ABI {

/// Encodes how long a requester waits for an acknowledgement before it retransmits.
///
/// The time is 4.096 µs · 2^exponent, or infinite for the exponent 0. Threads: immutable value.
class ack_timeout {
 public:
  /// The largest exponent, which means 2.44 hours.
  static constexpr std::uint8_t max_exponent = 31;

  /// Makes the default, 67.1 ms (exponent 14).
  constexpr ack_timeout() noexcept = default;
  /// Returns the infinite timeout, with which a failed peer is never detected.
  [[nodiscard]] static constexpr ack_timeout infinite() noexcept { return ack_timeout(0, {}); }
  /// Returns the timeout of `exponent`. Precondition: exponent <= 31.
  [[nodiscard]] static constexpr ack_timeout from_exponent(std::uint8_t exponent) {
    VERBENA_ASSERT(exponent <= max_exponent, "the exponent of an ACK timeout exceeds 31");
    return ack_timeout(exponent, {});
  }
  /// Returns the shortest timeout of at least `wait`; at most 2.44 hours, never infinite.
  template <class Rep = std::int64_t, class Period = std::nano>
  [[nodiscard]] static constexpr ack_timeout at_least(
      std::chrono::duration<Rep, Period> wait) noexcept {
    const auto least = detail::saturating_cast<std::chrono::nanoseconds>(wait);
    std::uint8_t exponent = 1;
    while (exponent < max_exponent && duration_of(exponent) < least) ++exponent;
    return ack_timeout(exponent, {});
  }

  /// Returns the encoding for ibv_modify_qp(3); 0 means infinite.
  [[nodiscard]] constexpr std::uint8_t exponent() const noexcept { return exponent_; }
  /// Returns whether the timeout is infinite.
  [[nodiscard]] constexpr bool is_infinite() const noexcept { return exponent_ == 0; }
  /// Returns the time; nanoseconds::max() if it is infinite.
  [[nodiscard]] constexpr std::chrono::nanoseconds duration() const noexcept {
    return is_infinite() ? std::chrono::nanoseconds::max() : duration_of(exponent_);
  }
  friend constexpr bool operator==(ack_timeout, ack_timeout) noexcept = default;

 private:
  struct unchecked {};
  constexpr ack_timeout(std::uint8_t exponent, unchecked) noexcept : exponent_(exponent) {}
  static constexpr std::chrono::nanoseconds duration_of(std::uint8_t exponent) noexcept {
    return std::chrono::nanoseconds(std::int64_t{4096} << exponent);
  }

  std::uint8_t exponent_ = 14;
};

/// Encodes how long a peer waits before it retries after an RNR NAK (receiver not ready).
///
/// There are 32 delays from 10 µs to 655.36 ms. The encoding is not monotonic: 0 means 655.36 ms.
/// Threads: immutable value.
class rnr_timer {
 public:
  /// The largest encoding.
  static constexpr std::uint8_t max_encoding = 31;

  /// Makes the default, 2.56 ms (encoding 16).
  constexpr rnr_timer() noexcept = default;
  /// Returns the delay of `encoding`. Precondition: encoding <= 31.
  [[nodiscard]] static constexpr rnr_timer from_encoding(std::uint8_t encoding) {
    VERBENA_ASSERT(encoding <= max_encoding, "the encoding of an RNR timer exceeds 31");
    return rnr_timer(encoding, {});
  }
  /// Returns the shortest delay of at least `wait`; at most 655.36 ms.
  template <class Rep = std::int64_t, class Period = std::nano>
  [[nodiscard]] static constexpr rnr_timer at_least(
      std::chrono::duration<Rep, Period> wait) noexcept {
    const auto least = detail::saturating_cast<std::chrono::nanoseconds>(wait);
    std::uint8_t encoding = 1;
    while (encoding <= max_encoding && rnr_timer(encoding, {}).duration() < least) ++encoding;
    return rnr_timer(encoding <= max_encoding ? encoding : std::uint8_t{0}, {});
  }

  /// Returns the encoding for ibv_modify_qp(3); 0 means 655.36 ms.
  [[nodiscard]] constexpr std::uint8_t encoding() const noexcept { return encoding_; }
  /// Returns the delay.
  [[nodiscard]] constexpr std::chrono::microseconds duration() const noexcept {
    return std::chrono::microseconds(std::int64_t{delays_[encoding_]} * 10);
  }
  friend constexpr bool operator==(rnr_timer, rnr_timer) noexcept = default;

 private:
  struct unchecked {};
  constexpr rnr_timer(std::uint8_t encoding, unchecked) noexcept : encoding_(encoding) {}

  // in units of 10 µs
  static constexpr std::array<std::uint32_t, 32> delays_ = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

  std::uint8_t encoding_ = 16;
};

/// Formats a timeout exactly: `65.536us`, `67.108864ms`, `infinite`.
[[nodiscard]] std::string to_string(ack_timeout timeout);
/// Formats a delay exactly: `10us`, `655.36ms`.
[[nodiscard]] std::string to_string(rnr_timer timer);

}  // namespace verbena::inline VERBENA_ABI
