// SPDX-License-Identifier: MIT
// Where a caller stands, for the rules of checked builds. Other builds know nothing of it: the type
// is empty there, and costs nothing as an argument of an inlined function.
#pragma once

#include <source_location>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

#ifdef VERBENA_CHECKED

/// A place in the program. Functions that take one as their last argument have `here()` as its
/// default, which is the place of their call. Threads: immutable value.
class call_site {
 public:
  /// Where this is called, or whose default argument it is.
  [[nodiscard]] static constexpr call_site here(
      std::source_location at = std::source_location::current()) noexcept {
    return call_site(at.file_name(), static_cast<int>(at.line()));
  }
  /// The file's name; lives as long as the program.
  [[nodiscard]] constexpr const char* file() const noexcept { return file_; }
  /// The line in file(), from 1.
  [[nodiscard]] constexpr int line() const noexcept { return line_; }

 private:
  constexpr call_site(const char* file, int line) noexcept : file_(file), line_(line) {}
  const char* file_;
  int line_;
};

#else

/// Nothing, in builds that are not checked. Threads: immutable value.
class call_site {
 public:
  /// Nothing, wherever it is called.
  [[nodiscard]] static constexpr call_site here() noexcept { return {}; }
};

#endif

}  // namespace verbena::inline VERBENA_ABI
