// SPDX-License-Identifier: MIT
#include "src/net/rank_list.hpp"

#include <algorithm>
#include <cstddef>

namespace verbena::inline VERBENA_ABI::net::detail {

std::string to_text(std::span<const std::uint32_t> ranks) {
  constexpr std::size_t most = 16;
  if (ranks.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t shown = ranks.size() > most ? most : ranks.size();
  for (std::size_t i = 0; i < shown; ++i) {
    if (i != 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (shown < ranks.size()) text += " and " + std::to_string(ranks.size() - shown) + " others";
  return text;
}

std::vector<std::uint32_t> each_once(std::vector<std::uint32_t> ranks) {
  std::ranges::sort(ranks);
  const auto repeated = std::ranges::unique(ranks);
  ranks.erase(repeated.begin(), repeated.end());
  return ranks;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
