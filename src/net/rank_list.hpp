// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "verbena/base/error.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Returns `rank 3`, `ranks 2 and 5`, or `ranks 1, 2, 3 and 5`; at most 16 of them, then the number
/// of the others.
[[nodiscard]] std::string to_text(std::span<const std::uint32_t> ranks);
/// Returns the ranks in ascending order, each once.
[[nodiscard]] std::vector<std::uint32_t> each_once(std::vector<std::uint32_t> ranks);
/// Returns the ranks below `size`.
[[nodiscard]] std::vector<std::uint32_t> all_ranks(std::uint32_t size);
/// Adds the ranks whose operations failed to the first failure.
[[nodiscard]] error with_failed_ranks(error first, std::vector<std::uint32_t> failed);

}  // namespace verbena::inline VERBENA_ABI::net::detail
