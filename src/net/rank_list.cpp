// SPDX-License-Identifier: MIT
#include "src/net/rank_list.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

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

std::vector<std::uint32_t> all_ranks(std::uint32_t size) {
  std::vector<std::uint32_t> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

error with_failed_ranks(error first, std::vector<std::uint32_t> failed) {
  return std::move(first).with_diagnosis("operations failed with " +
                                         to_text(each_once(std::move(failed))));
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
