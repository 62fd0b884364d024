// SPDX-License-Identifier: MIT
#include "src/net/store_group.hpp"

#include <chrono>

#include "src/net/rank_list.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

const store_agreement* store_group::current() const {
  if (agreeing == 0) return nullptr;
  return &*std::ranges::find_if(ranks, &rank_state::is_counted)->agreement;
}

bool store_group::is_agreed() const {
  const auto* const with = current();
  return with != nullptr &&
         std::ranges::none_of(ranks, [&](const auto& each) { return is_missing(each, *with); });
}

void store_group::begin_agreement(std::uint32_t rank, store_agreement wanted) {
  auto& place = ranks[rank];
  place.until = deadline::after(std::chrono::milliseconds(wanted.timeout_ms));
  first_end = earlier(first_end, place.until);
  wanted.awaited = each_once(std::move(wanted.awaited));
  std::erase_if(wanted.awaited, [&](std::uint32_t each) { return each >= size(); });
  place.agreement = std::move(wanted);
  place.is_counted = place.is_present();
  if (!place.is_counted) return;
  ++agreeing;
  for (const std::uint32_t each : place.agreement->awaited) ++ranks[each].awaited;
}

void store_group::end_agreement(std::uint32_t rank) {
  auto& place = ranks[rank];
  place.until = deadline::never();
  const auto ended = std::exchange(place.agreement, std::nullopt);
  if (!std::exchange(place.is_counted, false)) return;
  --agreeing;
  for (const std::uint32_t each : ended->awaited) --ranks[each].awaited;
}

void store_group::note_change(std::uint32_t rank) {
  ranks[rank].change = ++changes;
  log.push_back({.number = changes, .rank = rank});
  if (log.size() > 2 * ranks.size())
    std::erase_if(log, [&](const auto& each) { return ranks[each.rank].change != each.number; });
}

std::vector<std::uint32_t> store_group::changed_since(std::uint64_t informed) const {
  std::vector<std::uint32_t> changed;
  for (auto next = std::ranges::upper_bound(log, informed, {}, &session_change::number);
       next != log.end(); ++next)
    if (ranks[next->rank].change == next->number && !ranks[next->rank].is_present())
      changed.push_back(next->rank);
  return changed;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
