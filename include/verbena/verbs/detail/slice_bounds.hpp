// SPDX-License-Identifier: MIT
// Bounds checks of slices of local and remote memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "verbena/base/config.hpp"
#include "verbena/base/error.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The range of a slice in its region, in bytes.
struct slice_range {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// Returns whether the range is inside `size` bytes. Never overflows.
[[nodiscard]] constexpr bool is_inside(slice_range part, std::uint64_t size) noexcept {
  return part.offset <= size && part.length <= size - part.offset;
}

/// Returns the range of `count` elements from element `index`. If the range does not fit into 64
/// bits, returns a range that is inside no region.
[[nodiscard]] constexpr slice_range range_of_elements(std::uint64_t index, std::uint64_t count,
                                                      std::uint64_t element_bytes) noexcept {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  if (index > most / element_bytes || count > most / element_bytes) return {most, most};
  return {index * element_bytes, count * element_bytes};
}

/// Returns the range from `first` to `last` in the memory at `start`. If `first` is before `start`
/// or after `last`, returns a range that is inside no region.
[[nodiscard]] inline slice_range range_of_pointers(const void* start, const void* first,
                                                   const void* last) noexcept {
  const auto base = reinterpret_cast<std::uintptr_t>(start);
  const auto begin = reinterpret_cast<std::uintptr_t>(first);
  const auto end = reinterpret_cast<std::uintptr_t>(last);
  if (start == nullptr || begin < base || end < begin)
    return {std::numeric_limits<std::uint64_t>::max(), std::numeric_limits<std::uint64_t>::max()};
  return {begin - base, end - begin};
}

/// Returns `text` with its three `{}` replaced by the first offset, the end offset and `size`.
[[nodiscard]] std::string slice_text(const char* text, slice_range part, std::uint64_t size);

/// Stops the program with slice_text().
[[noreturn]] void stop_on_slice(const char* text, slice_range part, std::uint64_t size);
/// Returns the error `invalid_argument` with slice_text().
[[nodiscard]] error slice_error(const char* call, const char* text, slice_range part,
                                std::uint64_t size);

/// Stops the program with slice_text() unless the range is inside `size` bytes.
constexpr void check_slice(slice_range part, std::uint64_t size, const char* text) {
  if (!is_inside(part, size)) [[unlikely]]
    stop_on_slice(text, part, size);
}

}  // namespace verbena::inline VERBENA_ABI::detail
