// SPDX-License-Identifier: MIT
// Functions of any signature that do nothing but report EOPNOTSUPP.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>

namespace verbena::softdev {

/// How a function of libibverbs reports failure.
enum class convention : std::uint8_t {
  null,       ///< NULL, and errno
  code,       ///< the errno itself
  minus_one,  ///< -1, and errno
  silent,     ///< it cannot
};

/// `not_supported<Signature, How>::call` has that signature and reports EOPNOTSUPP.
template <class Signature, convention How>
struct not_supported;

template <class Return, class... Arguments, convention How>
struct not_supported<Return(Arguments...), How> {
  static Return call(Arguments... /*arguments*/) {
    errno = EOPNOTSUPP;
    if constexpr (How == convention::null) {
      return nullptr;
    } else if constexpr (How == convention::code) {
      return EOPNOTSUPP;
    } else if constexpr (How == convention::minus_one) {
      return -1;
    }
  }
};

/// Puts the functions of not_supported.inc into a context that is being made.
void fill_not_supported(verbs_context& context) noexcept;

/// True for transports that exist and that the device does not have.
[[nodiscard]] bool is_unsupported_transport(ibv_qp_type type) noexcept;
/// True when `flags` (ibv_access_flags) asks for something that exists and that the device lacks.
[[nodiscard]] bool has_unsupported_access(unsigned flags) noexcept;

}  // namespace verbena::softdev
