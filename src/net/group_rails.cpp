// SPDX-License-Identifier: MIT
#include "verbena/net/group_rails.hpp"

#include <algorithm>
#include <utility>

#include "src/net/rail_meeting.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {
// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(group_rails_state& of) noexcept { delete &of; }
}  // namespace detail

result<group_rails> group_rails::connect(group& among, std::span<const rail_port> ports,
                                         deadline until, const group_rails_options& options) {
  detail::rail_meeting meeting(among, ports, until, options);
  VERBENA_TRY(auto made, meeting.run());
  return group_rails(made.release());
}

multi_rail_channel& group_rails::operator[](std::uint32_t rank) {
  VERBENA_ASSERT(contains(rank), "a rank was not a member when the rails were connected");
  const auto& ranks = state_->ranks;
  return state_
      ->channels[static_cast<std::size_t>(std::ranges::lower_bound(ranks, rank) - ranks.begin())];
}

bool group_rails::contains(std::uint32_t rank) const noexcept {
  return std::ranges::binary_search(state_->ranks, rank);
}

void group_rails::progress() {
  for (multi_rail_channel& each : state_->channels) each.progress();
}

void group_rails::take(std::uint32_t rail, const async_event& event) {
  VERBENA_ASSERT(rail < state_->channels.front().rails(),
                 "a rail is not less than the number of ports");
  state_->events->put(rail, event);
}

}  // namespace verbena::inline VERBENA_ABI::net
