// SPDX-License-Identifier: MIT
// The storage of result<T>. std::variant would compile to about 30 functions for each type and
// dominate the compile time of programs.
#pragma once

#include <concepts>
#include <new>
#include <type_traits>
#include <utility>

#include "verbena/base/error.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Calls `function` with `argument`, like std::invoke.
template <class Function, class Argument>
constexpr decltype(auto) call_with(Function&& function, Argument&& argument) {
  if constexpr (std::is_member_function_pointer_v<std::decay_t<Function>>) {
    return (std::forward<Argument>(argument).*function)();
  } else if constexpr (std::is_member_object_pointer_v<std::decay_t<Function>>) {
    return std::forward<Argument>(argument).*function;
  } else {
    return std::forward<Function>(function)(std::forward<Argument>(argument));
  }
}

/// A value or an error. A move leaves the alternative unchanged and its content moved from.
/// Threads: one thread at a time.
template <class T>
class value_or_error {
 public:
  template <class... Arguments>
  explicit value_or_error(std::in_place_t /*value*/, Arguments&&... arguments)
      : value_(std::forward<Arguments>(arguments)...), has_value_(true) {}
  explicit value_or_error(verbena::error&& what) noexcept
      : error_(std::move(what)), has_value_(false) {}

  value_or_error(value_or_error&& other) noexcept(std::is_nothrow_move_constructible_v<T>)
    requires std::move_constructible<T>
      : has_value_(other.has_value_) {
    take(std::move(other));
  }
  value_or_error(const value_or_error& other)
    requires std::copy_constructible<T>
      : has_value_(other.has_value_) {
    take(other);
  }
  value_or_error& operator=(value_or_error&& other) noexcept
    requires std::is_nothrow_move_constructible_v<T>
  {
    // Takes the content first, because *this may own `other`.
    if (other.has_value_) {
      T taken(std::move(other.value_));
      destroy();
      ::new (static_cast<void*>(&value_)) T(std::move(taken));
      has_value_ = true;
    } else {
      verbena::error taken(std::move(other.error_));
      destroy();
      ::new (static_cast<void*>(&error_)) verbena::error(std::move(taken));
      has_value_ = false;
    }
    return *this;
  }
  value_or_error& operator=(const value_or_error& other)
    requires(std::copy_constructible<T> && std::is_nothrow_move_constructible_v<T>)
  {
    *this = value_or_error(other);
    return *this;
  }
  ~value_or_error() { destroy(); }

  [[nodiscard]] bool has_value() const noexcept { return has_value_; }
  /// Returns the value. Precondition: has_value().
  [[nodiscard]] T& value() noexcept { return value_; }
  [[nodiscard]] const T& value() const noexcept { return value_; }
  /// Returns the error. Precondition: !has_value().
  [[nodiscard]] verbena::error& error() noexcept { return error_; }
  [[nodiscard]] const verbena::error& error() const noexcept { return error_; }

 private:
  // Constructs the alternative that has_value_ selects. Copies or moves, depending on the value
  // category of `other`.
  template <class Other>
  void take(Other&& other) {
    if (has_value_) {
      ::new (static_cast<void*>(&value_)) T(std::forward<Other>(other).value_);
    } else {
      ::new (static_cast<void*>(&error_)) verbena::error(std::forward<Other>(other).error_);
    }
  }
  void destroy() noexcept {
    if (has_value_) [[likely]] {
      value_.~T();
    } else {
      destroy_error();
    }
  }
  // Not inline: keeps the reference counts of the error's texts out of data-path loops.
  [[gnu::cold, gnu::noinline]] void destroy_error() noexcept { error_.~error(); }

  union {
    T value_;
    verbena::error error_;
  };
  bool has_value_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
