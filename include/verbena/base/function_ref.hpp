// SPDX-License-Identifier: MIT
// A reference to a callable object, for parameters. std::function_ref of C++26 is similar, but has
// no empty state. Headers do not use std::function, because its header is slow to compile.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/attributes.hpp"

namespace verbena::inline VERBENA_ABI {

template <class Signature>
class function_ref;

namespace detail {

template <class Type>
inline constexpr bool is_function_ref = false;
template <class Signature>
inline constexpr bool is_function_ref<function_ref<Signature>> = true;

/// Whether a reference to `Function` can be called as a function of type `Result(Arguments...)`.
template <class Function, class Result, class... Arguments>
concept referable = !is_function_ref<std::remove_cvref_t<Function>> &&
                    !std::is_member_pointer_v<std::remove_cvref_t<Function>> &&
                    std::is_invocable_r_v<Result, Function&, Arguments...>;

}  // namespace detail

/// Refers to a function, a lambda or another callable object, or is empty. Intended for parameters:
/// a function_ref does not own the object, which must outlive the function_ref. A function pointer
/// may be a temporary. Copies refer to one object. Does not allocate. Threads: immutable value.
template <class Result, class... Arguments>
class function_ref<Result(Arguments...)> {
 public:
  /// Creates an empty reference.
  /// @{
  function_ref() noexcept = default;
  function_ref(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor)
  /// @}

  /// Refers to `function`. An empty std::function makes an empty reference.
  template <class Function>
    requires(detail::referable<Function, Result, Arguments...> &&
             !std::is_pointer_v<std::decay_t<Function>>)
  // NOLINTNEXTLINE(google-explicit-constructor): as std::function_ref
  function_ref(Function&& function VERBENA_LIFETIMEBOUND) noexcept
      : call_(&call_object<std::remove_reference_t<Function>>) {
    target_.object = const_cast<void*>(static_cast<const void*>(std::addressof(function)));
    if constexpr (requires { function.operator bool(); }) {
      if (!function.operator bool()) call_ = nullptr;
    }
  }
  /// Refers to a function, not to the pointer. A null pointer makes an empty reference.
  template <class Function>
    requires(detail::referable<Function, Result, Arguments...> &&
             std::is_pointer_v<std::decay_t<Function>>)
  // NOLINTNEXTLINE(google-explicit-constructor): as std::function_ref
  function_ref(Function&& function) noexcept {
    const std::decay_t<Function> pointer = function;
    target_.function = reinterpret_cast<void (*)()>(pointer);
    if (pointer != nullptr) call_ = &call_function<std::decay_t<Function>>;
  }

  /// Deleted: the assigned object would be destroyed before the first call.
  template <class Function>
    requires(!detail::is_function_ref<std::remove_cvref_t<Function>> &&
             !std::is_pointer_v<std::decay_t<Function>> &&
             !std::is_null_pointer_v<std::remove_cvref_t<Function>>)
  function_ref& operator=(Function&&) = delete;

  /// Returns whether the reference is not empty.
  explicit operator bool() const noexcept { return call_ != nullptr; }

  /// Calls the object. Precondition: the reference is not empty.
  Result operator()(Arguments... arguments) const {
    VERBENA_ASSERT(call_ != nullptr, "an empty function_ref was called");
    return call_(target_, std::forward<Arguments>(arguments)...);
  }

 private:
  union target {
    void* object;
    void (*function)();
  };

  template <class Object>
  static Result call_object(target to, Arguments... arguments) {
    return static_cast<Result>(
        (*static_cast<Object*>(to.object))(std::forward<Arguments>(arguments)...));
  }
  template <class Function>
  static Result call_function(target to, Arguments... arguments) {
    return static_cast<Result>(
        reinterpret_cast<Function>(to.function)(std::forward<Arguments>(arguments)...));
  }

  target target_{};
  Result (*call_)(target, Arguments...) = nullptr;
};

}  // namespace verbena::inline VERBENA_ABI
