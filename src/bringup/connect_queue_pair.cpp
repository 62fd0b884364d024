// SPDX-License-Identifier: MIT
#include "verbena/bringup/connect_queue_pair.hpp"

#include <utility>

#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

result<endpoint> exchange_endpoints(const endpoint& ours, stream& peer, deadline until) {
  VERBENA_TRY(const auto bytes, peer.exchange(frame_type::endpoint, ours.encode(), until));
  auto theirs = endpoint::decode(bytes);
  if (!theirs) return give_up(std::move(theirs).error(), peer);
  return theirs;
}

result<std::vector<std::byte>> wait_until_both_are_ready(stream& peer, deadline until,
                                                         std::span<const std::byte> message) {
  VERBENA_ASSERT(message.size() <= max_ready_bytes,
                 "a message of the bring-up has at most max_ready_bytes");
  const bool has_messages = peer.version() >= messages_since_version;
  VERBENA_TRY(auto theirs,
              peer.exchange(frame_type::ready,
                            has_messages ? message : std::span<const std::byte>(), until));
  if (!theirs.empty() && !has_messages)
    return give_up(error::protocol("connect_queue_pair", peer.peer(),
                                   "the peer's `ready` has bytes, which its version has not"),
                   peer);
  return theirs;
}

error give_up(error why, stream& peer) noexcept {
  peer.refuse(why.message());
  return why;
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
