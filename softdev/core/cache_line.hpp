// SPDX-License-Identifier: MIT
// The unit in which processors transfer memory.
#pragma once

#include <cstddef>

namespace verbena::softdev {

inline constexpr std::size_t cache_line = 64;

/// Rounds up to whole lines.
[[nodiscard]] constexpr std::size_t in_cache_lines(std::size_t bytes) noexcept {
  return (bytes + cache_line - 1) / cache_line * cache_line;
}

}  // namespace verbena::softdev
