// SPDX-License-Identifier: MIT
// The departure of a client from its group, and what it changes for the other clients.
#include <utility>
#include <vector>

#include "src/net/store_server.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

void store_server::close(session_iterator client) noexcept {
  leave(*client);
  sessions_.erase(client);
}

void store_server::leave(store_session& client) noexcept {
  if (client.group == nullptr) return;
  store_group& group = *std::exchange(client.group, nullptr);
  auto& place = group.ranks[client.rank];
  group.end_agreement(client.rank);
  place.session = nullptr;
  place.gone = true;
  place.waits = false;
  group.note_change(client.rank);
  --admitted_;
  --group.connected;
  if (!attempt([&] { deliver(group, group.values.remove(client.rank)); }))
    group.is_unsettled = true;
  settle(group);
}

void store_server::settle(store_group& of) noexcept {
  const bool has_finds = std::exchange(of.is_unsettled, false);
  of.is_unsettled = !attempt([&] {
    for (std::uint32_t each = 0; has_finds && each < of.size(); ++each)
      if (of.ranks[each].gone) deliver(of, of.values.remove(each));
    auto gone =
        of.is_exchanging() && !of.failure ? of.departed_members() : std::vector<std::uint32_t>();
    if (!gone.empty())
      fail(of, {.why = store_failure::gone, .ranks = std::move(gone), .name = of.exchange});
    try_conclude(of);
    if (of.has_formed && !of.has_present_member()) end_group(of);
  });
  if (of.connected == 0) groups_.remove_if([&](const auto& each) { return &each == &of; });
}

void store_server::end_group(store_group& of) {
  const auto waiting =
      of.ranks_that([](const auto& place) { return place.waits && place.agreement.has_value(); });
  of.has_ended = true;
  for (const std::uint32_t each : waiting) {
    const auto why = without_members(std::move(of.ranks[each].agreement->name));
    of.end_agreement(each);
    answer_request(*of.ranks[each].session, why);
  }
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
