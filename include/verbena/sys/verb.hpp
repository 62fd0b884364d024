// SPDX-License-Identifier: MIT
// One C function of a provider: name, error convention and pointer.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::sys {

/// The error convention of a C function. Source: the man pages of the functions.
enum class failure : std::uint8_t {
  null_and_errno,       ///< returns NULL and usually sets errno
  positive_errno,       ///< returns the errno itself
  minus_one_and_errno,  ///< returns -1 and usually sets errno
  negative_errno,       ///< returns a count, or the negated errno
  cannot_fail,          ///< returns void, or a value that is never an error
};

/// Text as a template argument.
template <std::size_t Size>
struct fixed_text {
  /// Copies a literal. Size includes the terminating zero.
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is the text
  consteval fixed_text(const char (&text)[Size]) {
    for (std::size_t at = 0; at < Size; ++at) characters[at] = text[at];
  }
  /// Returns the text without the terminating zero.
  [[nodiscard]] constexpr std::string_view view() const noexcept { return {characters, Size - 1}; }
  // NOLINTNEXTLINE(modernize-avoid-c-arrays): std::array would be compiled for each length
  char characters[Size]{};  ///< with the terminating zero
};

template <fixed_text Name, failure Convention, class Signature>
class verb;

/// A pointer to a C function. If the loaded library does not have the function, the pointer refers
/// to a function that reports EOPNOTSUPP in the same error convention, so every call is defined.
/// Threads: immutable once its table is filled.
template <fixed_text Name, failure Convention, class Return, class... Arguments>
class verb<Name, Convention, Return(Arguments...)> {
 public:
  /// The type of the C function.
  using function = Return (*)(Arguments...);
  /// The error convention.
  static constexpr failure convention = Convention;
  /// Whether the function can fail.
  static constexpr bool can_fail = Convention != failure::cannot_fail;

  /// Returns the name as in the man page: `ibv_reg_mr`.
  [[nodiscard]] static constexpr std::string_view name() noexcept { return Name.view(); }

  /// Calls the function. Return value and errno are those of the C function.
  Return operator()(Arguments... arguments) const { return function_(arguments...); }

  /// Returns whether the loaded library has the function.
  [[nodiscard]] bool available() const noexcept { return function_ != &report_missing; }
  /// Returns the C function, or a function that reports EOPNOTSUPP.
  [[nodiscard]] function get() const noexcept { return function_; }
  /// Sets the pointer. nullptr means that the loaded library does not have the function.
  void set(function to) noexcept { function_ = to != nullptr ? to : &report_missing; }

  /// Reports `code` in the convention of the function.
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
