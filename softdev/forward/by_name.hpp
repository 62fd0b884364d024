// SPDX-License-Identifier: MIT
// Functions that are looked up by name when they are called. If no library has the function, the
// call reports EOPNOTSUPP in the convention of the function.
#pragma once

#include "softdev/abi/failure.hpp"

namespace verbena::forward {

/// `by_name<Signature, How>::call(found, arguments...)` calls `found`, which has that signature or
/// is nullptr.
template <class Signature, softdev::convention How>
struct by_name;

template <class Return, class... Arguments, softdev::convention How>
struct by_name<Return(Arguments...), How> {
  using signature = Return(Arguments...);

  template <class Found>
  static Return call(Found* found, Arguments... arguments) {
    auto* function = reinterpret_cast<signature*>(found);
    if (function == nullptr) function = &softdev::not_supported<signature, How>::call;
    return function(arguments...);
  }
};

}  // namespace verbena::forward
