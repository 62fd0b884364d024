// SPDX-License-Identifier: MIT
// Memory of the library on a NUMA node.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "src/memory/numa_host.hpp"
#include "src/verbs/memory_block.hpp"
#include "verbena/memory/numa.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// What is wanted of a block.
struct block_place {
  std::string_view call;  ///< of the user, for messages
  unsigned node = 0;
  numa_binding how = numa_binding::preferred;
};

/// Whether `bytes` can be where they are wanted, as far as that is known before there is a block.
/// If they only prefer it, a node that is not there is no error: the log hook is told.
[[nodiscard]] result<bool> can_place(const numa_host& host, std::size_t bytes,
                                     const block_place& where);

/// Puts `block`, which nobody has touched, on a node that the host has. What it returns owns the
/// block, and undoes that before the block goes, since the software device uses memory again.
/// Errors: see allocate_placed().
[[nodiscard]] result<std::shared_ptr<const memory_block>> place_block(
    const numa_host& host, std::shared_ptr<const memory_block> block, const block_place& where);

/// What is wanted of a region.
struct region_wanted {
  std::size_t bytes = 0;  ///< at least 1
  access_flags rights;
};

/// Allocates and registers memory, where and of what `options` say. Errors: see allocate_placed().
[[nodiscard]] result<memory_region> allocate_region(const char* call,
                                                    const protection_domain& domain,
                                                    region_wanted wanted,
                                                    const placed_options& options);

}  // namespace verbena::inline VERBENA_ABI::detail
