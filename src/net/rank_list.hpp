// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "verbena/base/error.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Returns for example `no rank`, `rank 3`, `ranks 2 and 5`, or `ranks 1, 2, 3 and 5`. Lists at
/// most 16 ranks, then the number of the others.
[[nodiscard]] std::string to_text(std::span<const std::uint32_t> ranks);
/// Returns the ranks in ascending order without duplicates.
[[nodiscard]] std::vector<std::uint32_t> each_once(std::vector<std::uint32_t> ranks);
/// Returns the ranks 0 to `size` - 1.
[[nodiscard]] std::vector<std::uint32_t> all_ranks(std::uint32_t size);
/// Adds the ranks whose operations failed to the diagnosis of the first failure.
[[nodiscard]] error with_failed_ranks(error first, std::vector<std::uint32_t> failed);

}  // namespace verbena::inline VERBENA_ABI::net::detail
