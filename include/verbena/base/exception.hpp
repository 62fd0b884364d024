// SPDX-License-Identifier: MIT
// What result::value() throws when there is an error.
#pragma once

#include <stdexcept>
#include <utility>

#include "verbena/base/error.hpp"

namespace verbena::inline VERBENA_ABI {

/// Carries an error through a throw; what() is the error's message. Threads: immutable value.
class exception : public std::runtime_error {
 public:
  /// Takes over `what`. Allocates.
  explicit exception(verbena::error what)
      : std::runtime_error(what.message()), error_(std::move(what)) {}

  /// The error that was raised.
  [[nodiscard]] const verbena::error& error() const noexcept { return error_; }

 private:
  verbena::error error_;
};

}  // namespace verbena::inline VERBENA_ABI
