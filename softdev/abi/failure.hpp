// SPDX-License-Identifier: MIT
// How the functions of libibverbs report failure: one place for the device and for the forwarders.
#pragma once

#include <cerrno>
#include <cstdint>

namespace verbena::softdev {

/// How a function of libibverbs reports failure.
enum class convention : std::uint8_t {
  null,       ///< NULL, and errno
  code,       ///< the errno itself
  minus_one,  ///< -1, and errno
  negative,   ///< the negative errno
  zero,       ///< 0 says that there is nothing
  text,       ///< an empty text
  silent,     ///< it cannot
};

/// Sets errno to `code` and returns the failure of a function in its convention.
template <class Return, convention How>
Return report_failure(int code) noexcept {
  errno = code;
  if constexpr (How == convention::null) {
    return nullptr;
  } else if constexpr (How == convention::code) {
    return code;
  } else if constexpr (How == convention::minus_one) {
    return static_cast<Return>(-1);
  } else if constexpr (How == convention::negative) {
    return -code;
  } else if constexpr (How == convention::zero) {
    return 0;
  } else if constexpr (How == convention::text) {
    return "";
  }
}

/// `not_supported<Signature, How>::call` has that signature and reports EOPNOTSUPP.
template <class Signature, convention How>
struct not_supported;

template <class Return, class... Arguments, convention How>
struct not_supported<Return(Arguments...), How> {
  static Return call(Arguments... /*arguments*/) { return report_failure<Return, How>(EOPNOTSUPP); }
};

}  // namespace verbena::softdev
