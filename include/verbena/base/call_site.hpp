// SPDX-License-Identifier: MIT
// The place of a call, for the reports of checked builds. In other builds the type is empty, and an
// argument of the type costs nothing in an inlined function.
#pragma once

#include <source_location>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

#ifdef VERBENA_CHECKED

/// Names a source file and line. A parameter with the default `here()` is the place of the call.
/// Threads: immutable value.
class call_site {
 public:
  /// Returns the place of this call, or of the call whose default argument it is.
  [[nodiscard]] static constexpr call_site here(
      std::source_location at = std::source_location::current()) noexcept {
    return call_site(at.file_name(), static_cast<int>(at.line()));
  }
  /// Returns the name of the file. It has static storage duration.
  [[nodiscard]] constexpr const char* file() const noexcept { return file_; }
  /// Returns the line in file(), counted from 1.
  [[nodiscard]] constexpr int line() const noexcept { return line_; }

 private:
  constexpr call_site(const char* file, int line) noexcept : file_(file), line_(line) {}
  const char* file_;
  int line_;
};

#else

/// Is empty in builds that are not checked. Threads: immutable value.
class call_site {
 public:
  /// Returns the empty value.
  [[nodiscard]] static constexpr call_site here() noexcept { return {}; }
};

#endif

}  // namespace verbena::inline VERBENA_ABI
