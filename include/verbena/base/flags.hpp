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

template <class Enum>
concept flag_enum = std::is_enum_v<Enum> && enable_flags<Enum>;

/// A set of enumerators of `Enum`. Unknown bits are kept. Threads: immutable value.
template <flag_enum Enum>
class flags {
 public:
  using mask_type = std::underlying_type_t<Enum>;

  constexpr flags() noexcept = default;
  // NOLINTNEXTLINE(google-explicit-constructor): one flag is a set of flags
  constexpr flags(Enum flag) noexcept : mask_(static_cast<mask_type>(flag)) {}
  [[nodiscard]] static constexpr flags from_mask(mask_type mask) noexcept {
    flags set;
    set.mask_ = mask;
    return set;
  }

  [[nodiscard]] constexpr mask_type mask() const noexcept { return mask_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return mask_ == 0; }
  [[nodiscard]] constexpr bool contains(flags other) const noexcept {
    return (mask_ & other.mask_) == other.mask_;
  }
  [[nodiscard]] constexpr flags without(flags other) const noexcept {
    return from_mask(static_cast<mask_type>(mask_ & ~other.mask_));
  }
  constexpr flags& operator|=(flags other) noexcept { return *this = *this | other; }
  constexpr flags& operator&=(flags other) noexcept { return *this = *this & other; }

  friend constexpr flags operator|(flags a, flags b) noexcept {
    return from_mask(static_cast<mask_type>(a.mask_ | b.mask_));
  }
  friend constexpr flags operator&(flags a, flags b) noexcept {
    return from_mask(static_cast<mask_type>(a.mask_ & b.mask_));
  }
  friend constexpr bool operator==(flags, flags) noexcept = default;

 private:
  mask_type mask_ = 0;
};

template <flag_enum Enum>
[[nodiscard]] constexpr flags<Enum> operator|(Enum a, Enum b) noexcept {
  return flags<Enum>(a) | b;
}

}  // namespace verbena::inline VERBENA_ABI
