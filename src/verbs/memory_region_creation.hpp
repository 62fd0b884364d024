// SPDX-License-Identifier: MIT
// The state of a new memory region.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "src/verbs/memory_block.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/ownership.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// What a region is made of: `memory` is what the library allocated for it, or nullptr.
struct region_source {
  std::string place;  ///< for messages: `0x7f0012340000+4096`
  std::shared_ptr<const memory_block> memory;
};
/// `0x7f0012340000+4096`: where memory is, for messages.
[[nodiscard]] std::string place_of(const void* address, std::size_t length);
[[nodiscard]] std::shared_ptr<memory_region_state> make_memory_region_state(
    ibv_mr* native, const protection_domain& pd, region_source from, ownership owner);

/// Registers `part`, which lies in `of`. The region keeps `of`, for ever if its deregistration is
/// refused. Errors: as protection_domain::register_memory().
[[nodiscard]] result<memory_region> register_part(const protection_domain& pd,
                                                  std::span<std::byte> part, access_flags access,
                                                  std::shared_ptr<const memory_block> of);

}  // namespace verbena::inline VERBENA_ABI::detail
