// SPDX-License-Identifier: MIT
// Typed bit masks that keep unknown bits.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>  // std::hash
#include <type_traits>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Is true for enumerations whose enumerators are single bits; enables `a | b`.
template <class Enum>
inline constexpr bool enable_flags = false;

/// Is satisfied by enumerations for which enable_flags is true.
template <class Enum>
concept flag_enum = std::is_enum_v<Enum> && enable_flags<Enum>;

/// Holds a set of enumerators of `Enum`, including unknown bits. Threads: immutable value.
template <flag_enum Enum>
class flags {
 public:
  /// The underlying integer.
  using mask_type = std::underlying_type_t<Enum>;

  constexpr flags() noexcept = default;
  /// Makes the set of one enumerator.
  // NOLINTNEXTLINE(google-explicit-constructor): one flag is a set of flags
  constexpr flags(Enum flag) noexcept : mask_(static_cast<mask_type>(flag)) {}
  /// Returns the set of the bits in `mask`, including unknown bits.
  [[nodiscard]] static constexpr flags from_mask(mask_type mask) noexcept {
    flags set;
    set.mask_ = mask;
    return set;
  }

  /// Returns the bits.
  [[nodiscard]] constexpr mask_type mask() const noexcept { return mask_; }
  /// Returns whether no bit is set.
  [[nodiscard]] constexpr bool empty() const noexcept { return mask_ == 0; }
  /// Returns whether all bits of `other` are in the set; true if `other` is empty.
  [[nodiscard]] constexpr bool contains(flags other) const noexcept {
    return (mask_ & other.mask_) == other.mask_;
  }
  /// Returns the set without the bits of `other`.
  [[nodiscard]] constexpr flags without(flags other) const noexcept {
    return from_mask(static_cast<mask_type>(mask_ & ~other.mask_));
  }
  /// Adds the bits of `other`.
  constexpr flags& operator|=(flags other) noexcept { return *this = *this | other; }
  /// Removes the bits that are not in `other`.
  constexpr flags& operator&=(flags other) noexcept { return *this = *this & other; }

  /// Returns the union of `a` and `b`.
  friend constexpr flags operator|(flags a, flags b) noexcept {
    return from_mask(static_cast<mask_type>(a.mask_ | b.mask_));
  }
  /// Returns the intersection of `a` and `b`.
  friend constexpr flags operator&(flags a, flags b) noexcept {
    return from_mask(static_cast<mask_type>(a.mask_ & b.mask_));
  }
  friend constexpr bool operator==(flags, flags) noexcept = default;

 private:
  mask_type mask_ = 0;
};

/// Returns the set of two enumerators.
template <flag_enum Enum>
[[nodiscard]] constexpr flags<Enum> operator|(Enum a, Enum b) noexcept {
  return flags<Enum>(a) | b;
}

}  // namespace verbena::inline VERBENA_ABI

/// Hashes a set of flags.
template <verbena::flag_enum Enum>
struct std::hash<verbena::flags<Enum>> {
  /// Returns the hash of set.mask().
  std::size_t operator()(verbena::flags<Enum> set) const noexcept {
    return std::hash<typename verbena::flags<Enum>::mask_type>{}(set.mask());
  }
};
