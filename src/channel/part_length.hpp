// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "verbena/base/assert.hpp"
#include "verbena/channel/buffer_part.hpp"
#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// How many bytes of `memory` the part has. Precondition: it lies inside.
[[nodiscard]] inline std::size_t part_length(const buffer& memory, const buffer_part& part) {
  VERBENA_ASSERT(
      part.offset <= memory.capacity() &&
          (part.length == buffer_part::rest || part.length <= memory.capacity() - part.offset),
      "a part of a buffer lies inside the buffer");
  return part.length == buffer_part::rest ? memory.capacity() - part.offset : part.length;
}

}  // namespace verbena::inline VERBENA_ABI::detail
