// SPDX-License-Identifier: MIT
#include "src/net/rank_list.hpp"

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

}  // namespace verbena::inline VERBENA_ABI::net::detail
