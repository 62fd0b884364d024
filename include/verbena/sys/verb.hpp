// SPDX-License-Identifier: MIT
// One C function of a provider: its name, how it reports failure, and where it is.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::sys {

/// How a C function says that it failed. Source: the functions' man pages.
enum class failure : std::uint8_t {
  null_and_errno,       ///< returns NULL and sets errno (not always)
  positive_errno,       ///< returns the errno itself
  minus_one_and_errno,  ///< returns -1 and sets errno (not always)
  negative_errno,       ///< returns a count, or the negated errno
  cannot_fail,          ///< returns nothing, or something that is never an error
};

/// Text as a template argument.
template <std::size_t Size>
struct fixed_text {
  /// Of a literal, whose terminating zero is part of Size.
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is the text
  consteval fixed_text(const char (&text)[Size]) { std::copy_n(text, Size, characters.begin()); }
  /// The text without the terminating zero.
  [[nodiscard]] constexpr std::string_view view() const noexcept {
    return {characters.data(), Size - 1};
  }
  std::array<char, Size> characters{};  ///< with the terminating zero
};

template <fixed_text Name, failure Convention, class Signature>
class verb;

/// A C function by pointer. A function that the run-time library lacks is replaced by one that
/// reports EOPNOTSUPP in the function's own convention, so calling is always defined.
/// Threads: immutable once its table is filled.
template <fixed_text Name, failure Convention, class Return, class... Arguments>
class verb<Name, Convention, Return(Arguments...)> {
 public:
  /// The C function's type.
  using function = Return (*)(Arguments...);
  /// How it says that it failed.
  static constexpr failure convention = Convention;
  /// Whether it can fail at all.
  static constexpr bool can_fail = Convention != failure::cannot_fail;

  /// As in its man page: `ibv_reg_mr`.
  [[nodiscard]] static constexpr std::string_view name() noexcept { return Name.view(); }

  /// Calls it. What it returns and sets is the C function's.
  Return operator()(Arguments... arguments) const { return function_(arguments...); }

  /// Whether the run-time library has it.
  [[nodiscard]] bool available() const noexcept { return function_ != &report_missing; }
  /// The C function, or one that reports EOPNOTSUPP.
  [[nodiscard]] function get() const noexcept { return function_; }
  /// Fills the table; nullptr: the library lacks it.
  void set(function to) noexcept { function_ = to != nullptr ? to : &report_missing; }

  /// Reports `code` as this function would.
  static Return fail(int code) noexcept {
    errno = code;
    if constexpr (std::is_void_v<Return>) {
      return;
    } else if constexpr (Convention == failure::positive_errno) {
      return code;
    } else if constexpr (Convention == failure::minus_one_and_errno) {
      return -1;
    } else if constexpr (Convention == failure::negative_errno) {
      return -code;
    } else {
      return Return{};
    }
  }

 private:
  static Return report_missing(Arguments... /*arguments*/) { return fail(EOPNOTSUPP); }

  function function_ = &report_missing;
};

}  // namespace verbena::inline VERBENA_ABI::sys
