// SPDX-License-Identifier: MIT
// Ownership of adopted objects of the C API.
#pragma once

#include <cstdint>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Selects the owner of an adopted object of the C API.
enum class ownership : std::uint8_t {
  take,    ///< the handle destroys the object
  borrow,  ///< the caller destroys the object, after the handle and all objects made from it
};

}  // namespace verbena::inline VERBENA_ABI
