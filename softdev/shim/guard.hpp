// SPDX-License-Identifier: MIT
// Converts C++ exceptions to failures, so that the C interface never throws.
#pragma once

#include <exception>
#include <utility>

#include "softdev/abi/failure.hpp"
#include "softdev/ipc/cancellation.hpp"

namespace verbena::softdev {

/// Returns the errno of an exception, ENOMEM if memory is exhausted, and logs it.
[[nodiscard]] int errno_of(const std::exception& thrown) noexcept;

/// Converts to the failure of a function in its convention, for `return` in an exception handler.
template <convention How>
struct failed_call {
  int code;

  template <class Return>
  operator Return() const noexcept {  // NOLINT(google-explicit-constructor)
    return report_failure<Return, How>(code);
  }
};

/// Ends a function try block of an exported function.
// lint: allow(macro): a handler of exceptions is no function
#define VERBENA_END_OF_C_FUNCTION(how)                                       \
  catch (const std::exception& thrown) {                                     \
    return verbena::softdev::failed_call<verbena::softdev::convention::how>{ \
        verbena::softdev::errno_of(thrown)};                                 \
  }
/// Ends a function try block of an exported function that cannot report failure.
// lint: allow(macro): as above
#define VERBENA_END_OF_SILENT_C_FUNCTION                   \
  catch (const std::exception& thrown) {                   \
    static_cast<void>(verbena::softdev::errno_of(thrown)); \
  }

/// Calls `work` while the thread is not cancelled. Returns an exception as a failure in the
/// convention of the C function. Does not catch the unwinding of a thread that is cancelled while
/// `work` waits for events.
template <convention How, class Work>
auto guard(Work&& work) -> decltype(work()) {
  const without_cancellation disabled;
  try {
    return std::forward<Work>(work)();
  } catch (const std::exception& thrown) {
    return report_failure<decltype(work()), How>(errno_of(thrown));
  }
}

/// `guarded<&function, How>::call` has the signature of the function, and calls it in guard().
template <auto Function, convention How>
struct guarded;

template <class Return, class... Arguments, Return (*Function)(Arguments...), convention How>
struct guarded<Function, How> {
  static Return call(Arguments... arguments) {
    return guard<How>([&]() -> Return { return Function(arguments...); });
  }
};

template <class Return, class... Arguments, Return (*Function)(Arguments...) noexcept,
          convention How>
struct guarded<Function, How> {
  static constexpr auto call = Function;
};

}  // namespace verbena::softdev
