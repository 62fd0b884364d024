// SPDX-License-Identifier: MIT
// The list of libraries that ldconfig leaves for the loader, /etc/ld.so.cache.
#pragma once

namespace verbena::forward {

/// Calls `visit` with the path of each library of that name, in the loader's order, until one
/// returns something; returns that, or nullptr. A file that is not understood has no entries.
/// Blocks and allocates; thread-safe.
[[nodiscard]] void* visit_loader_cache(const char* soname,
                                       void* (*visit)(const char* path)) noexcept;

}  // namespace verbena::forward
