// SPDX-License-Identifier: MIT
// Who destroys a native object that was made elsewhere.
#pragma once

#include <cstdint>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// What `adopt()` does with a native object.
enum class ownership : std::uint8_t {
  take,    ///< the new object destroys it
  borrow,  ///< somebody else destroys it, after the new object and everything made from it are gone
};

}  // namespace verbena::inline VERBENA_ABI
