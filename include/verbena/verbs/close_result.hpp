// SPDX-License-Identifier: MIT
// What close() returns: done, or an error together with the object, which is still usable.
#pragma once

#include <optional>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

/// Success, or the reason why an object could not be closed and the object itself. Dropping it
/// drops the object, whose destructor then tries again and reports a second refusal to the log.
/// Threads: one thread at a time.
template <class T>
class [[nodiscard("closing can be refused; the object is then inside")]] close_result {
 public:
  close_result() noexcept = default;
  /// A refusal: the reason, and the object.
  close_result(verbena::error why, T object)
      : refused_(std::in_place, std::move(why), std::move(object)) {}

  /// Whether it was closed.
  [[nodiscard]] bool has_value() const noexcept { return !refused_.has_value(); }
  /// As has_value().
  explicit operator bool() const noexcept { return has_value(); }
  /// Why it was refused. Precondition: it was.
  [[nodiscard]] const verbena::error& error() const {
    VERBENA_ASSERT(refused_.has_value(), "error() is asked of a close_result only after a refusal");
    return refused_->first;
  }
  /// The object that could not be closed. Precondition: it was refused.
  [[nodiscard]] T object() && {
    VERBENA_ASSERT(refused_.has_value(), "a closed object cannot be taken back");
    return std::move(refused_->second);
  }
  /// Raises the error if closing was refused.
  void value() const {
    if (refused_) raise(refused_->first);
  }

 private:
  std::optional<std::pair<verbena::error, T>> refused_;
};

}  // namespace verbena::inline VERBENA_ABI
