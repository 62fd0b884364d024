// SPDX-License-Identifier: MIT
// Ownership of adopted native objects.
#pragma once

#include <cstdint>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Who destroys an adopted native object.
enum class ownership : std::uint8_t {
  take,    ///< the adopting handle
  borrow,  ///< the caller, after the handle and all objects made from it
};

}  // namespace verbena::inline VERBENA_ABI
