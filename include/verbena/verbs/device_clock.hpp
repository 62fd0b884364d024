// SPDX-License-Identifier: MIT
// The clock of a device, which counts ticks that are not nanoseconds and begins again at 0 when its
// bits are full. context::read_clock() reads it, completions carry it.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "verbena/base/ids.hpp"

namespace verbena::inline VERBENA_ABI {

/// How many ticks lie between two times of a device's clock; negative when the first was later.
/// extended_device_attributes::duration_of() makes a duration of it.
using device_ticks = strong_id<struct device_ticks_tag, std::int64_t>;

/// A time on a device's clock. Times of one device are compared with each other and with nothing
/// else. Threads: immutable value.
class device_clock_time {
 public:
  /// What the C API says of a time.
  struct parts {
    std::uint64_t ticks = 0;                 ///< what the clock showed
    std::uint64_t mask = ~std::uint64_t{0};  ///< the bits that the clock counts in
  };

  constexpr device_clock_time() noexcept = default;
  /// A mask of 0 means that all bits count.
  constexpr explicit device_clock_time(parts of) noexcept
      : bits_(of.mask != 0 ? static_cast<unsigned>(std::bit_width(of.mask)) : 64U),
        ticks_(bits_ >= 64U ? of.ticks : of.ticks & ((std::uint64_t{1} << bits_) - 1)) {}

  /// What the clock showed.
  [[nodiscard]] constexpr std::uint64_t ticks() const noexcept { return ticks_; }
  /// In how many bits it counts: it shows the same again after 2^bits() ticks.
  [[nodiscard]] constexpr unsigned bits() const noexcept { return bits_; }

  /// How much later `a` is than `b`, the shortest way around: right as long as less than half of
  /// the clock's range lies between them, also when it began again at 0 meanwhile.
  friend constexpr device_ticks operator-(device_clock_time a, device_clock_time b) noexcept {
    const unsigned unused = 64U - a.bits_;
    return device_ticks(static_cast<std::int64_t>((a.ticks_ - b.ticks_) << unused) >> unused);
  }
  /// True when it is earlier than `other`, in the sense of operator-. There is no operator<, since
  /// on a circle it would be no order.
  [[nodiscard]] constexpr bool is_before(device_clock_time other) const noexcept {
    return (*this - other).value() < 0;
  }
  friend constexpr bool operator==(device_clock_time, device_clock_time) noexcept = default;

 private:
  unsigned bits_ = 64;
  std::uint64_t ticks_ = 0;
};

/// `123456 ticks`.
[[nodiscard]] std::string to_string(device_clock_time time);

}  // namespace verbena::inline VERBENA_ABI
