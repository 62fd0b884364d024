// SPDX-License-Identifier: MIT
// Memory of the library on NUMA nodes.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "src/memory/numa_host.hpp"
#include "src/verbs/memory_block.hpp"
#include "verbena/memory/numa.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The placement of a block.
struct block_place {
  std::string_view call;  ///< the public function, for messages
  unsigned node = 0;
  numa_binding how = numa_binding::preferred;
};

/// Returns whether `bytes` bytes can be placed, as far as is known before allocation. If a
/// preferred node does not exist, logs a warning and does not return an error.
[[nodiscard]] result<bool> can_place(const numa_host& host, std::size_t bytes,
                                     const block_place& where);

/// Places an untouched `block` on an existing node. The result owns the block and removes the
/// placement before the block is freed, since the software device reuses memory.
/// Errors: those of allocate_placed().
[[nodiscard]] result<std::shared_ptr<const memory_block>> place_block(
    const numa_host& host, std::shared_ptr<const memory_block> block, const block_place& where);

/// The size and access flags of a region.
struct region_wanted {
  std::size_t bytes = 0;  ///< at least 1
  access_flags access;
};

/// Allocates and registers memory with `options`. Errors: those of allocate_placed().
[[nodiscard]] result<memory_region> allocate_region(const char* call,
                                                    const protection_domain& domain,
                                                    region_wanted wanted,
                                                    const placed_options& options);

}  // namespace verbena::inline VERBENA_ABI::detail
