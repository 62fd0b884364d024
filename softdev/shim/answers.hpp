// SPDX-License-Identifier: MIT
// How functions of the C interface answer their callers.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace verbena::softdev {

/// NULL of any kind, with errno.
inline std::nullptr_t fail(int code) noexcept {
  errno = code;
  return nullptr;
}

/// Copies `value` to a caller whose struct has `size` bytes, older or newer than ours.
template <class T>
void copy_sized(const T& value, void* out, std::size_t size) noexcept {
  std::memcpy(out, &value, std::min(size, sizeof value));
  if (size > sizeof value)
    std::memset(static_cast<char*>(out) + sizeof value, 0, size - sizeof value);
}

}  // namespace verbena::softdev
