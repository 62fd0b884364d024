// SPDX-License-Identifier: MIT
#include "verbena/bringup/connect_queue_pair.hpp"

#include <utility>

namespace verbena::inline VERBENA_ABI::bringup::detail {

result<endpoint> exchange_endpoints(const endpoint& ours, stream& peer, deadline until) {
  VERBENA_TRY(const auto bytes, peer.exchange(frame_type::endpoint, ours.encode(), until));
  auto theirs = endpoint::decode(bytes);
  if (!theirs) return give_up(std::move(theirs).error(), peer);
  return theirs;
}

result<void> wait_until_both_are_ready(stream& peer, deadline until) {
  VERBENA_TRY_VOID(peer.exchange(frame_type::ready, {}, until));
  return {};
}

error give_up(error why, stream& peer) noexcept {
  peer.refuse(why.message());
  return why;
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
