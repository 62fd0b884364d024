// SPDX-License-Identifier: MIT
// The list of libraries that ldconfig leaves for the loader, /etc/ld.so.cache.
#pragma once

#include <string_view>

namespace verbena::forward {

/// Calls `visit` with the path of each library of that name in the file's bytes, in the loader's
/// order, until one returns something; returns that, or nullptr. Bytes that are not understood have
/// no entries. Thread-safe.
[[nodiscard]] void* visit_cache(std::string_view file, std::string_view soname,
                                void* (*visit)(const char* path)) noexcept;

/// The same for this machine's file. Blocks and allocates; thread-safe.
[[nodiscard]] void* visit_loader_cache(std::string_view soname,
                                       void* (*visit)(const char* path)) noexcept;

}  // namespace verbena::forward
