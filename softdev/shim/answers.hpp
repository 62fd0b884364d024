// SPDX-License-Identifier: MIT
// Return values and output structs of the C interface.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace verbena::softdev {

/// Sets errno and returns NULL, for any pointer type.
inline std::nullptr_t fail(int code) noexcept {
  errno = code;
  return nullptr;
}

/// Copies `value` to a caller's struct of `size` bytes, which may be of an older or newer version.
/// Fills additional bytes with zeros.
template <class T>
void copy_sized(const T& value, void* out, std::size_t size) noexcept {
  std::memcpy(out, &value, std::min(size, sizeof value));
  if (size > sizeof value)
    std::memset(static_cast<char*>(out) + sizeof value, 0, size - sizeof value);
}

}  // namespace verbena::softdev
