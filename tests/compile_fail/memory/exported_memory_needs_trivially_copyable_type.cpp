// SPDX-License-Identifier: MIT
// Exported memory contains a trivially copyable type.
// expect: constraints? (failure|not satisfied)
#include <string>

#include "verbena/memory/exported_memory.hpp"

#ifdef VERBENA_BAD
using text = std::string;
#else
using text = std::array<char, 32>;
#endif

text use(const verbena::exported_memory<text>& window) { return window.copy_out(); }
