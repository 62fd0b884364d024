// SPDX-License-Identifier: MIT
// A value or an error: the interface of std::expected<T, error>, the same in every language mode.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/detail/value_or_error.hpp"
#include "verbena/base/error.hpp"

namespace verbena::inline VERBENA_ABI {

template <class T>
class result;

namespace detail {
template <class T>
inline constexpr bool is_result = false;
template <class T>
inline constexpr bool is_result<result<T>> = true;
}  // namespace detail

/// A value or an error, like std::expected. If there is an error, value() throws
/// `verbena::exception`, or aborts with the message in builds without exceptions. Assignable if T
/// is nothrow move constructible.
/// Threads: one thread at a time. Never allocates, except as T does.
template <class T>
class [[nodiscard("an error may be inside: check it, pass it on, or call value()")]] result {
 public:
  /// The type of the value.
  using value_type = T;
  /// The type of the error.
  using error_type = verbena::error;

  /// Makes a success with a value constructed from `value`.
  ///
  /// Implicit if `value` converts to T implicitly, so `result<bool>` takes no other result: that
  /// would replace an error by the value false.
  template <class U = T>
    requires(std::constructible_from<T, U> && !std::same_as<std::remove_cvref_t<U>, result> &&
             !std::same_as<std::remove_cvref_t<U>, verbena::error> &&
             !(std::same_as<T, bool> && detail::is_result<std::remove_cvref_t<U>>))
  explicit(!std::convertible_to<U, T>) result(U&& value)
      : state_(std::in_place, std::forward<U>(value)) {}
  /// Makes a failure.
  // NOLINTNEXTLINE(google-explicit-constructor): a returned error becomes a result
  result(verbena::error what) noexcept : state_(std::move(what)) {}

  /// Returns whether there is a value.
  [[nodiscard]] bool has_value() const noexcept { return state_.has_value(); }
  /// Returns has_value(). A result<bool> does not convert, because it could be confused with its
  /// value: `if (connection.is_disconnected())` would be true for a connected one.
  explicit operator bool() const noexcept
    requires(!std::same_as<T, bool>)
  {
    return has_value();
  }

  /// Returns the value. Precondition: has_value().
  [[nodiscard]] T& operator*() & { return check_value(), state_.value(); }
  /// Returns the value. Precondition: has_value().
  [[nodiscard]] const T& operator*() const& { return check_value(), state_.value(); }
  /// Returns the value as an object, like value(). Precondition: has_value().
  [[nodiscard]] T operator*() && { return check_value(), std::move(state_.value()); }
  /// Returns a pointer to the value. Precondition: has_value().
  [[nodiscard]] T* operator->() { return __builtin_addressof(**this); }
  /// Returns a pointer to the value. Precondition: has_value().
  [[nodiscard]] const T* operator->() const { return __builtin_addressof(**this); }

  /// Returns the value, or raises the error.
  T& value() & { return raise_unless_value(), state_.value(); }
  /// Returns the value, or raises the error.
  const T& value() const& { return raise_unless_value(), state_.value(); }
  /// Returns the value as an object, or raises the error. std::expected returns a reference, which
  /// would dangle in `for (auto& device : list_devices().value())`.
  T value() && {
    if (!has_value()) raise(std::move(state_.error()));
    return std::move(state_.value());
  }
  /// Returns the value, or `other` if there is an error.
  template <class U>
  [[nodiscard]] T value_or(U&& other) && {
    return has_value() ? std::move(state_.value()) : static_cast<T>(std::forward<U>(other));
  }
  /// Returns a copy of the value, or `other` if there is an error.
  template <class U>
  [[nodiscard]] T value_or(U&& other) const& {
    return has_value() ? state_.value() : static_cast<T>(std::forward<U>(other));
  }

  /// Returns the error. Precondition: !has_value().
  [[nodiscard]] const verbena::error& error() const& { return check_error(), state_.error(); }
  /// Returns the error as an object. Precondition: !has_value().
  [[nodiscard]] verbena::error error() && { return check_error(), std::move(state_.error()); }

  /// Returns `next(value)`, which is a result, or this error.
  template <class F>
  auto and_then(F&& next) && -> std::invoke_result_t<F, T&&> {
    if (!has_value()) return std::move(state_.error());
    return detail::call_with(std::forward<F>(next), std::move(state_.value()));
  }
  /// Returns a result with the value `next(value)`, or this error.
  template <class F>
  auto transform(F&& next) && -> result<std::remove_cv_t<std::invoke_result_t<F, T&&>>> {
    if (!has_value()) return std::move(state_.error());
    if constexpr (std::is_void_v<std::invoke_result_t<F, T&&>>) {
      detail::call_with(std::forward<F>(next), std::move(state_.value()));
      return {};
    } else {
      return detail::call_with(std::forward<F>(next), std::move(state_.value()));
    }
  }
  /// Returns the value, or `next(error)`, which is a result.
  template <class F>
  result or_else(F&& next) && {
    if (has_value()) return std::move(*this);
    return detail::call_with(std::forward<F>(next), std::move(state_.error()));
  }
  /// Returns the value, or the error `next(error)`.
  template <class F>
  result transform_error(F&& next) && {
    if (has_value()) return std::move(*this);
    return detail::call_with(std::forward<F>(next), std::move(state_.error()));
  }

 private:
  void raise_unless_value() const {
    if (!has_value()) raise(state_.error());
  }
  void check_value() const {
    VERBENA_ASSERT(has_value(),
                   "a result with an error was dereferenced: check it, or call value()");
  }
  void check_error() const {
    VERBENA_ASSERT(!has_value(), "error() of a result that succeeded: check has_value() first");
  }

  detail::value_or_error<T> state_;
};

/// Success or an error.
template <>
class [[nodiscard("an error may be inside: check it, pass it on, or call value()")]] result<void> {
 public:
  /// A success has no value.
  using value_type = void;
  /// The type of the error.
  using error_type = verbena::error;

  result() noexcept : state_(std::in_place) {}
  /// Makes a failure.
  // NOLINTNEXTLINE(google-explicit-constructor): a returned error becomes a result
  result(verbena::error what) noexcept : state_(std::move(what)) {}

  /// Returns whether the result is a success.
  [[nodiscard]] bool has_value() const noexcept { return state_.has_value(); }
  /// Returns has_value().
  explicit operator bool() const noexcept { return has_value(); }
  /// Raises the error if there is one.
  void value() const& {
    if (!has_value()) raise(state_.error());
  }
  /// Raises the error if there is one.
  void value() && {
    if (!has_value()) raise(std::move(state_.error()));
  }
  /// Returns the error. Precondition: !has_value().
  [[nodiscard]] const verbena::error& error() const& { return check_error(), state_.error(); }
  /// Returns the error as an object. Precondition: !has_value().
  [[nodiscard]] verbena::error error() && { return check_error(), std::move(state_.error()); }

  /// Returns `next()`, which is a result, after a success; otherwise this error.
  template <class F>
  auto and_then(F&& next) && -> std::invoke_result_t<F> {
    if (!has_value()) return std::move(state_.error());
    return std::forward<F>(next)();
  }
  /// Returns a result with the value `next()` after a success; otherwise this error.
  template <class F>
  auto transform(F&& next) && -> result<std::remove_cv_t<std::invoke_result_t<F>>> {
    if (!has_value()) return std::move(state_.error());
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      std::forward<F>(next)();
      return {};
    } else {
      return std::forward<F>(next)();
    }
  }
  /// Returns success, or `next(error)`, which is a result.
  template <class F>
  result or_else(F&& next) && {
    if (has_value()) return {};
    return detail::call_with(std::forward<F>(next), std::move(state_.error()));
  }
  /// Returns success, or the error `next(error)`.
  template <class F>
  result transform_error(F&& next) && {
    if (has_value()) return {};
    return detail::call_with(std::forward<F>(next), std::move(state_.error()));
  }

 private:
  void check_error() const {
    VERBENA_ASSERT(!has_value(), "error() of a result that succeeded: check has_value() first");
  }

  struct nothing {};
  detail::value_or_error<nothing> state_;
};

}  // namespace verbena::inline VERBENA_ABI

// For VERBENA_TRY: a name that is unique within a function.
#define VERBENA_TRY_CONCAT_(a, b) a##b
#define VERBENA_TRY_NAME_(line) VERBENA_TRY_CONCAT_(verbena_try_, line)

/// Evaluates a result. Returns its error from the enclosing function, or declares `name` with the
/// value: `VERBENA_TRY(auto pd, context.allocate_pd());`.
#define VERBENA_TRY(name, expression)                      \
  auto VERBENA_TRY_NAME_(__LINE__) = (expression);         \
  if (!VERBENA_TRY_NAME_(__LINE__).has_value())            \
    return std::move(VERBENA_TRY_NAME_(__LINE__)).error(); \
  name = *std::move(VERBENA_TRY_NAME_(__LINE__))

/// Evaluates a result without a value. Returns its error from the enclosing function.
#define VERBENA_TRY_VOID(expression)                                                   \
  do {                                                                                 \
    auto verbena_try_result = (expression);                                            \
    static_assert(std::is_void_v<decltype(std::move(verbena_try_result).value())>,     \
                  "the result has a value: use VERBENA_TRY, or VERBENA_TRY_DISCARD");  \
    if (!verbena_try_result.has_value()) return std::move(verbena_try_result).error(); \
  } while (false)

/// Evaluates a result and ignores its value. Returns its error from the enclosing function.
#define VERBENA_TRY_DISCARD(expression)                                                \
  do {                                                                                 \
    auto verbena_try_result = (expression);                                            \
    if (!verbena_try_result.has_value()) return std::move(verbena_try_result).error(); \
  } while (false)

/// Acts as VERBENA_TRY in a coroutine: `VERBENA_CO_TRY(auto peer, co_await connecting());`.
#define VERBENA_CO_TRY(name, expression)                      \
  auto VERBENA_TRY_NAME_(__LINE__) = (expression);            \
  if (!VERBENA_TRY_NAME_(__LINE__).has_value())               \
    co_return std::move(VERBENA_TRY_NAME_(__LINE__)).error(); \
  name = *std::move(VERBENA_TRY_NAME_(__LINE__))

/// Acts as VERBENA_TRY_VOID in a coroutine.
#define VERBENA_CO_TRY_VOID(expression)                                                     \
  do {                                                                                      \
    auto verbena_try_result = (expression);                                                 \
    static_assert(std::is_void_v<decltype(std::move(verbena_try_result).value())>,          \
                  "the result has a value: use VERBENA_CO_TRY, or VERBENA_CO_TRY_DISCARD"); \
    if (!verbena_try_result.has_value()) co_return std::move(verbena_try_result).error();   \
  } while (false)

/// Acts as VERBENA_TRY_DISCARD in a coroutine.
#define VERBENA_CO_TRY_DISCARD(expression)                                                \
  do {                                                                                    \
    auto verbena_try_result = (expression);                                               \
    if (!verbena_try_result.has_value()) co_return std::move(verbena_try_result).error(); \
  } while (false)
