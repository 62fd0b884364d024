// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "verbena/base/assert.hpp"
#include "verbena/channel/buffer_slice.hpp"
#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns the length in bytes of `part` of `memory`. Precondition: `part` is inside `memory`.
[[nodiscard]] inline std::size_t part_length(const buffer& memory, const buffer_slice& part) {
  VERBENA_ASSERT(
      part.offset <= memory.capacity() &&
          (part.length == buffer_slice::rest || part.length <= memory.capacity() - part.offset),
      "a buffer_slice exceeds its buffer");
  return part.length == buffer_slice::rest ? memory.capacity() - part.offset : part.length;
}

}  // namespace verbena::inline VERBENA_ABI::detail
