// SPDX-License-Identifier: MIT
// A callable object with one owner. std::move_only_function of C++23 is similar. Headers do not use
// std::function, because its header is slow to compile.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

template <class Signature>
class owned_function;

/// Owns a function, a lambda or another callable object, or is empty. For functions that are called
/// after the call that they were passed to has returned. Allocates. Threads: one thread at a time.
template <class Result, class... Arguments>
class owned_function<Result(Arguments...)> {
 public:
  /// Creates an empty function.
  owned_function() noexcept = default;
  /// Stores `function`. An empty function_ref or a null pointer makes an empty function.
  template <class Function>
    requires(!std::is_same_v<std::remove_cvref_t<Function>, owned_function> &&
             std::is_invocable_r_v<Result, std::decay_t<Function>&, Arguments...>)
  // NOLINTNEXTLINE(google-explicit-constructor): as std::move_only_function
  owned_function(Function&& function) {
    if constexpr (std::is_pointer_v<std::remove_cvref_t<Function>> ||
                  requires { function.operator bool(); })
      if (!static_cast<bool>(function)) return;
    kept_ = std::make_unique<object<std::decay_t<Function>>>(std::in_place,
                                                             std::forward<Function>(function));
  }

  /// Returns whether there is a function.
  explicit operator bool() const noexcept { return kept_ != nullptr; }
  /// Calls the function. Precondition: the owned_function is not empty.
  Result operator()(Arguments... arguments) const {
    VERBENA_ASSERT(kept_ != nullptr, "an empty owned_function was called");
    return kept_->call(std::forward<Arguments>(arguments)...);
  }

 private:
  struct callable {
    callable() = default;
    callable(const callable&) = delete;
    callable& operator=(const callable&) = delete;
    virtual ~callable() = default;
    virtual Result call(Arguments... arguments) = 0;
  };
  template <class Function>
  struct object final : callable {
    template <class From>
    object(std::in_place_t, From&& from) : function(std::forward<From>(from)) {}
    Result call(Arguments... arguments) override {
      return function(std::forward<Arguments>(arguments)...);
    }
    Function function;
  };

  std::unique_ptr<callable> kept_;
};

}  // namespace verbena::inline VERBENA_ABI
