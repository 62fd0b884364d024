// SPDX-License-Identifier: MIT
// The result of close(): success, or an error and the object.
#pragma once

#include <optional>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

/// Success, or an error and the object that could not be closed. The object is still usable.
///
/// If the result is discarded, the destructor of the object calls the verb again. If the verb fails
/// again, the destructor logs the error.
/// Threads: one thread at a time.
template <class T>
class [[nodiscard("if closing fails, the result contains the object")]] close_result {
 public:
  close_result() noexcept = default;
  /// Makes a failure.
  close_result(verbena::error why, T object)
      : outcome_(std::move(why)), object_(std::move(object)) {}

  /// Returns whether the object was closed.
  [[nodiscard]] bool has_value() const noexcept { return outcome_.has_value(); }
  /// Returns has_value().
  explicit operator bool() const noexcept { return has_value(); }
  /// Returns the error. Precondition: !has_value().
  [[nodiscard]] const verbena::error& error() const {
    VERBENA_ASSERT(!outcome_.has_value(),
                   "error() of a close_result that succeeded: check the result first");
    return outcome_.error();
  }
  /// Returns the object that could not be closed. Precondition: !has_value().
  [[nodiscard]] T object() && {
    VERBENA_ASSERT(object_.has_value(),
                   "object() of a close_result that succeeded: the object is closed");
    return *std::move(object_);
  }
  /// Raises the error if closing failed.
  void value() const { outcome_.value(); }

 private:
  result<void> outcome_;
  std::optional<T> object_;  // if closing failed
};

}  // namespace verbena::inline VERBENA_ABI
