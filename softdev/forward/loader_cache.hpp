// SPDX-License-Identifier: MIT
// The list of libraries that ldconfig writes for the loader, /etc/ld.so.cache.
#pragma once

#include <string_view>

namespace verbena::forward {

/// Calls `visit` with the path of each library named `soname`, in the order of the cache, until a
/// call does not return nullptr. Returns the result of that call, or nullptr. `file` is the content
/// of a cache; unknown content has no entries. Thread-safe.
[[nodiscard]] void* visit_cache(std::string_view file, std::string_view soname,
                                void* (*visit)(const char* path)) noexcept;

/// Calls visit_cache with the cache of this host. Blocks and allocates. Thread-safe.
[[nodiscard]] void* visit_loader_cache(std::string_view soname,
                                       void* (*visit)(const char* path)) noexcept;

}  // namespace verbena::forward
