// SPDX-License-Identifier: MIT
// Looks up functions of libraries that are loaded at run time.
#pragma once

#include <dlfcn.h>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Stores the address of a function of a library in `out`. Returns false if the library does not
/// have the function.
template <class Function>
[[nodiscard]] bool find_function(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(::dlsym(library, name));
  return out != nullptr;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
