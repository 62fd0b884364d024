// SPDX-License-Identifier: MIT
// What a peer may write is trivially copyable.
// expect: constraints? (failure|not satisfied)
#include <string>

#include "verbena/memory/remote_window.hpp"

#ifdef VERBENA_BAD
using text = std::string;
#else
using text = std::array<char, 32>;
#endif

text use(const verbena::remote_window<text>& window) { return window.copy_out(); }
