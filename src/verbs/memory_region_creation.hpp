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

/// The memory of a region. `memory` is nullptr if the library did not allocate it.
struct region_source {
  std::string place;  ///< for messages: `0x7f0012340000+4096`
  std::shared_ptr<const memory_block> memory;
};
/// Returns address and length for messages: `0x7f0012340000+4096`.
[[nodiscard]] std::string place_of(const void* address, std::size_t length);
[[nodiscard]] std::shared_ptr<memory_region_state> make_memory_region_state(
    ibv_mr* native, const protection_domain& pd, region_source from, ownership owner);

/// Registers `part`, a range of `of`. The region keeps `of` alive. If deregistration fails, `of`
/// exists until the process ends. Errors: those of protection_domain::register_memory().
[[nodiscard]] result<memory_region> register_part(const protection_domain& pd,
                                                  std::span<std::byte> part, access_flags access,
                                                  std::shared_ptr<const memory_block> of);

}  // namespace verbena::inline VERBENA_ABI::detail
