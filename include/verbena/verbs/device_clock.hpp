// SPDX-License-Identifier: MIT
// Times on the clock of a device: lazy_completion::timestamp() and context::read_clock(). The clock
// counts ticks, which are not nanoseconds, and wraps around to 0.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "verbena/base/ids.hpp"

namespace verbena::inline VERBENA_ABI {

/// A difference of two times in ticks. extended_device_attributes::duration_of() converts it.
using device_ticks = strong_id<struct device_ticks_tag, std::int64_t>;

/// A time on the clock of a device. Compare it only with times of the same device.
/// Threads: immutable value.
class device_clock_time {
 public:
  /// A time of the C API.
  struct parts {
    std::uint64_t ticks = 0;                 ///< the value of the clock
    std::uint64_t mask = ~std::uint64_t{0};  ///< the valid bits (`completion_timestamp_mask`)
  };

  constexpr device_clock_time() noexcept = default;
  /// Converts from the C API. A mask of 0 means that all 64 bits are valid.
  constexpr explicit device_clock_time(parts of) noexcept
      : bits_(of.mask != 0 ? static_cast<unsigned>(std::bit_width(of.mask)) : 64U),
        ticks_(bits_ >= 64U ? of.ticks : of.ticks & ((std::uint64_t{1} << bits_) - 1)) {}

  /// Returns the value of the clock: 0 to 2^bits() - 1.
  [[nodiscard]] constexpr std::uint64_t ticks() const noexcept { return ticks_; }
  /// Returns the number of valid bits. The clock wraps around after 2^bits() ticks.
  [[nodiscard]] constexpr unsigned bits() const noexcept { return bits_; }

  /// Returns the ticks from `b` to `a`; negative if `a` is earlier. The result is correct if the
  /// times are less than 2^(bits() - 1) ticks apart, even if the clock wrapped around in between.
  friend constexpr device_ticks operator-(device_clock_time a, device_clock_time b) noexcept {
    const unsigned unused = 64U - a.bits_;
    return device_ticks(static_cast<std::int64_t>((a.ticks_ - b.ticks_) << unused) >> unused);
  }
  /// Returns whether the time is earlier than `other`, by operator-. There is no operator<, because
  /// the relation is not transitive on a clock that wraps around.
  [[nodiscard]] constexpr bool is_before(device_clock_time other) const noexcept {
    return (*this - other).value() < 0;
  }
  friend constexpr bool operator==(device_clock_time, device_clock_time) noexcept = default;

 private:
  unsigned bits_ = 64;
  std::uint64_t ticks_ = 0;
};

/// Returns `123456 ticks`.
[[nodiscard]] std::string to_string(device_clock_time time);

}  // namespace verbena::inline VERBENA_ABI
