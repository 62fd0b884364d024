// SPDX-License-Identifier: MIT
// The encoded times of reliable transports. Conversions from a duration round up: a wait is never
// shorter than asked. Source: InfiniBand Architecture Specification 9.7.5.2.8 and 11.6.2, as in
// ibv_modify_qp(3).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI {

/// How long a requester waits for an acknowledgement before it retransmits: 4.096 µs · 2^exponent,
/// or for ever (exponent 0). Threads: immutable value.
class ack_timeout {
 public:
  /// The largest exponent: 2.44 hours.
  static constexpr std::uint8_t max_exponent = 31;

  /// 2^14: 67.1 ms.
  constexpr ack_timeout() noexcept = default;
  /// Waits for ever: a peer that is gone is never noticed.
  [[nodiscard]] static constexpr ack_timeout infinite() noexcept { return ack_timeout(0, {}); }
  /// Precondition: exponent <= 31.
  [[nodiscard]] static constexpr ack_timeout from_exponent(std::uint8_t exponent) {
    VERBENA_ASSERT(exponent <= max_exponent, "an ACK timeout's exponent has 5 bits: 0 to 31");
    return ack_timeout(exponent, {});
  }
  /// The smallest encodable timeout that is not shorter than `wait`; 2.44 hours at most, never
  /// infinite.
  [[nodiscard]] static constexpr ack_timeout at_least(std::chrono::nanoseconds wait) noexcept {
    std::uint8_t exponent = 1;
    while (exponent < max_exponent && duration_of(exponent) < wait) ++exponent;
    return ack_timeout(exponent, {});
  }

  /// As queue pairs take it; 0 for infinite.
  [[nodiscard]] constexpr std::uint8_t exponent() const noexcept { return exponent_; }
  /// Whether it waits for ever.
  [[nodiscard]] constexpr bool is_infinite() const noexcept { return exponent_ == 0; }
  /// The time meant; nanoseconds::max() for infinite.
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

/// How long a responder without a receive asks its peer to wait: one of 32 delays from 10 µs to
/// 655.36 ms. The encoding is not monotonic: 0 means the longest. Threads: immutable value.
class rnr_timer {
 public:
  /// The largest encoding.
  static constexpr std::uint8_t max_encoding = 31;

  /// 2.56 ms (encoding 16).
  constexpr rnr_timer() noexcept = default;
  /// Precondition: encoding <= 31.
  [[nodiscard]] static constexpr rnr_timer from_encoding(std::uint8_t encoding) {
    VERBENA_ASSERT(encoding <= max_encoding, "an RNR timer's encoding has 5 bits: 0 to 31");
    return rnr_timer(encoding, {});
  }
  /// The shortest delay that is not shorter than `wait`; 655.36 ms at most.
  [[nodiscard]] static constexpr rnr_timer at_least(std::chrono::nanoseconds wait) noexcept {
    std::uint8_t encoding = 1;
    while (encoding <= max_encoding && rnr_timer(encoding, {}).duration() < wait) ++encoding;
    return rnr_timer(encoding <= max_encoding ? encoding : std::uint8_t{0}, {});
  }

  /// As queue pairs take it; 0 is the longest delay.
  [[nodiscard]] constexpr std::uint8_t encoding() const noexcept { return encoding_; }
  /// The delay meant.
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

/// `65.536us`, `67.108864ms`, `infinite`: exact, without trailing zeros.
[[nodiscard]] std::string to_string(ack_timeout timeout);
/// `10us`, `655.36ms`: exact, without trailing zeros.
[[nodiscard]] std::string to_string(rnr_timer timer);

}  // namespace verbena::inline VERBENA_ABI
