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
  first_end = earliest(first_end, place.until);
  wanted.awaited = each_once(std::move(wanted.awaited));
  std::erase_if(wanted.awaited, [&](std::uint32_t each) { return each >= size(); });
  place.agreement = std::move(wanted);
  place.is_counted = place.is_present();
  if (!place.is_counted) return;
  ++agreeing;
  for (const std::uint32_t each : place.agreement->awaited) ++ranks[each].awaited;
}

void store_group::end_agreement(std::uint32_t rank) noexcept {
  auto& place = ranks[rank];
  place.until = deadline::never();
  const auto ended = std::exchange(place.agreement, std::nullopt);
  if (!std::exchange(place.is_counted, false)) return;
  --agreeing;
  for (const std::uint32_t each : ended->awaited) --ranks[each].awaited;
}

void store_group::note_change(std::uint32_t rank) noexcept {
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

std::optional<blob> store_group::next_news(std::uint64_t& informed) const {
  // Members that are connected are not reported: the agreement that made them members did that.
  const auto changed = changed_since(informed);
  const auto has_session = [&](std::uint32_t each) { return ranks[each].session != nullptr; };
  if (changed.empty()) {
    informed = changes;
    return std::nullopt;
  }
  const bool is_of_returned = has_session(changed.front());
  const auto other = std::ranges::find(changed, !is_of_returned, has_session);
  const auto told = std::span(changed.begin(), other);
  informed = other == changed.end() ? changes : ranks[told.back()].change;
  return is_of_returned ? encode_returned(told) : encode_left(told);
}

bool store_group::can_expel(std::span<const std::uint32_t> missing) const {
  const bool are_present =
      std::ranges::all_of(missing, [&](std::uint32_t each) { return ranks[each].is_present(); });
  if (!are_present || agreeing != missing.size()) return are_present && agreeing > missing.size();
  return std::ranges::all_of(agreeing_members(),
                             [&](std::uint32_t each) { return each < missing.back(); });
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
