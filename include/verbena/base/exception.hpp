// SPDX-License-Identifier: MIT
// The exception that value() of a failed result throws.
#pragma once

#include <stdexcept>
#include <utility>

#include "verbena/base/error.hpp"

namespace verbena::inline VERBENA_ABI {

/// Carries an error; what() returns its message. Threads: immutable value.
class exception : public std::runtime_error {
 public:
  /// Stores `what` and its message. Allocates.
  explicit exception(verbena::error what)
      : std::runtime_error(what.message()), error_(std::move(what)) {}

  /// Returns the error.
  [[nodiscard]] const verbena::error& error() const noexcept { return error_; }

 private:
  verbena::error error_;
};

}  // namespace verbena::inline VERBENA_ABI
