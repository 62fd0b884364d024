// SPDX-License-Identifier: MIT
#pragma once

#include <exception>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Calls `first`, and `second` if `first` throws an exception of the standard library, such as that
/// of a failed allocation. `second` must not throw.
template <class First, class Second>
void call_or_else(First&& first, [[maybe_unused]] Second&& second) noexcept {
#ifdef VERBENA_NO_EXCEPTIONS
  first();
#else
  try {
    first();
  } catch (const std::exception&) {
    second();
  }
#endif
}

}  // namespace verbena::inline VERBENA_ABI::detail
