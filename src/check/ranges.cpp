// SPDX-License-Identifier: MIT
#include "src/check/ranges.hpp"

#ifdef VERBENA_CHECKED

#include <algorithm>

namespace verbena::inline VERBENA_ABI::detail::in_flight {

const posted_request* range_set::overlapping(const parts& in, std::uintptr_t longest,
                                             memory_range range) noexcept {
  const std::uintptr_t first = range.begin - std::min(range.begin, longest);
  for (auto at = in.lower_bound(first); at != in.end() && at->first < range.end; ++at)
    if (at->second.end > range.begin) return at->second.owner;
  return nullptr;
}

const posted_request* range_set::conflict(memory_range range, use how) const noexcept {
  if (const auto* found = overlapping(sinks_, longest_sink_, range)) return found;
  return how == use::sink ? overlapping(sources_, longest_source_, range) : nullptr;
}

void range_set::add(memory_range range, use how, const posted_request* owner) {
  parts& in = how == use::sink ? sinks_ : sources_;
  std::uintptr_t& longest = how == use::sink ? longest_sink_ : longest_source_;
  longest = in.empty() ? range.end - range.begin : std::max(longest, range.end - range.begin);
  in.emplace(range.begin, part{range.end, owner});
}

void range_set::remove(memory_range range, use how, const posted_request* owner) noexcept {
  parts& in = how == use::sink ? sinks_ : sources_;
  const auto [first, last] = in.equal_range(range.begin);
  const auto found =
      std::find_if(first, last, [=](const auto& each) { return each.second.owner == owner; });
  if (found != last) in.erase(found);
}

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
