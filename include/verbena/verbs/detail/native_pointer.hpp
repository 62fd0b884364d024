// SPDX-License-Identifier: MIT
// A copy of the pointer to an object of the C API in its handle, for the data path.
#pragma once

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// A pointer without ownership that is nullptr after a move. Threads: one thread at a time.
template <class T>
class native_pointer {
 public:
  explicit native_pointer(T* to) noexcept : to_(to) {}
  native_pointer(const native_pointer&) noexcept = default;
  native_pointer& operator=(const native_pointer&) noexcept = default;
  native_pointer(native_pointer&& other) noexcept : to_(other.take()) {}
  native_pointer& operator=(native_pointer&& other) noexcept {
    to_ = other.take();
    return *this;
  }
  ~native_pointer() = default;

  [[nodiscard]] T* get() const noexcept { return to_; }

 private:
  // Not std::exchange, which is slow to compile for each type.
  [[nodiscard]] T* take() noexcept {
    T* const taken = to_;
    to_ = nullptr;
    return taken;
  }

  T* to_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
