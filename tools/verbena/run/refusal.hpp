// SPDX-License-Identifier: MIT
// The reason why a program was not run.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace verbena::tool {

/// The exit status of `verbena run` and its error message.
struct refusal {
  int status = 0;
  std::string text;
};

/// A value, or the reason why there is none. Threads: one thread at a time.
template <class T>
class [[nodiscard]] outcome {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): functions return T or refusal
  outcome(T value) : content_(std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  outcome(refusal why) : content_(std::move(why)) {}

  explicit operator bool() const noexcept { return std::holds_alternative<T>(content_); }
  [[nodiscard]] const T& value() const { return std::get<T>(content_); }
  [[nodiscard]] const refusal& why() const { return std::get<refusal>(content_); }

 private:
  std::variant<T, refusal> content_;
};

}  // namespace verbena::tool
