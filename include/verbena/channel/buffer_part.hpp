// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <limits>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Which bytes of a buffer an operation is about. Threads: immutable value.
struct buffer_part {
  /// As a length: all that lies behind the offset.
  static constexpr std::size_t rest = std::numeric_limits<std::size_t>::max();

  std::size_t offset = 0;     ///< of the first byte
  std::size_t length = rest;  ///< bytes; 0 is a message without bytes
};

}  // namespace verbena::inline VERBENA_ABI
