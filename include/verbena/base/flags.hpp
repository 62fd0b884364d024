// SPDX-License-Identifier: MIT
// Sets of enumerators: typed bit masks that keep bits they do not know.
#pragma once

#include <concepts>
#include <type_traits>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// True for enumerations whose enumerators are single bits; enables `a | b`.
template <class Enum>
inline constexpr bool enable_flags = false;

/// An enumeration that makes sets: enable_flags is true of it.
template <class Enum>
concept flag_enum = std::is_enum_v<Enum> && enable_flags<Enum>;

/// A set of enumerators of `Enum`. Unknown bits are kept. Threads: immutable value.
template <flag_enum Enum>
class flags {
 public:
  /// The integer that a set is made of.
  using mask_type = std::underlying_type_t<Enum>;

  constexpr flags() noexcept = default;
  /// The set of one enumerator.
  // NOLINTNEXTLINE(google-explicit-constructor): one flag is a set of flags
  constexpr flags(Enum flag) noexcept : mask_(static_cast<mask_type>(flag)) {}
  /// The set of the bits in `mask`, known or not.
  [[nodiscard]] static constexpr flags from_mask(mask_type mask) noexcept {
    flags set;
    set.mask_ = mask;
    return set;
  }

  /// The bits.
  [[nodiscard]] constexpr mask_type mask() const noexcept { return mask_; }
  /// Whether no bit is set.
  [[nodiscard]] constexpr bool empty() const noexcept { return mask_ == 0; }
  /// Whether all of `other` are in the set; true for an empty `other`.
  [[nodiscard]] constexpr bool contains(flags other) const noexcept {
    return (mask_ & other.mask_) == other.mask_;
  }
  /// The set without the bits of `other`.
  [[nodiscard]] constexpr flags without(flags other) const noexcept {
    return from_mask(static_cast<mask_type>(mask_ & ~other.mask_));
  }
  /// Adds `other`.
  constexpr flags& operator|=(flags other) noexcept { return *this = *this | other; }
  /// Keeps only what is in `other` too.
  constexpr flags& operator&=(flags other) noexcept { return *this = *this & other; }

  /// What is in `a` or in `b`.
  friend constexpr flags operator|(flags a, flags b) noexcept {
    return from_mask(static_cast<mask_type>(a.mask_ | b.mask_));
  }
  /// What is in `a` and in `b`.
  friend constexpr flags operator&(flags a, flags b) noexcept {
    return from_mask(static_cast<mask_type>(a.mask_ & b.mask_));
  }
  friend constexpr bool operator==(flags, flags) noexcept = default;

 private:
  mask_type mask_ = 0;
};

/// The set of two enumerators.
template <flag_enum Enum>
[[nodiscard]] constexpr flags<Enum> operator|(Enum a, Enum b) noexcept {
  return flags<Enum>(a) | b;
}

}  // namespace verbena::inline VERBENA_ABI
