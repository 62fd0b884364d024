// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <limits>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// The bytes of a buffer that an operation uses. Threads: immutable value.
struct buffer_slice {
  /// As a length: all bytes from the offset to the end.
  static constexpr std::size_t rest = std::numeric_limits<std::size_t>::max();

  std::size_t offset = 0;     ///< of the first byte
  std::size_t length = rest;  ///< in bytes; 0 for an empty message
};

}  // namespace verbena::inline VERBENA_ABI
