// SPDX-License-Identifier: MIT
// Two prepared queue pairs and a stream between them become two connected queue pairs.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

namespace detail {
/// Sends our endpoint and receives the peer's.
[[nodiscard]] result<endpoint> exchange_endpoints(const endpoint& ours, stream& peer,
                                                  deadline until);
/// Says that we are ready, and waits until the peer is.
[[nodiscard]] result<void> wait_until_both_are_ready(stream& peer, deadline until);
/// Tells the peer what failed here, and returns it.
[[nodiscard]] error give_up(error why, stream& peer) noexcept;
}  // namespace detail

/// Exchanges endpoints over `peer` and comes back with a connected queue pair, when the other side
/// is connected too and can receive: what either side sends first meets a posted receive.
/// `post_receives` is called in between, with the connected queue pair: it posts the receives that
/// the peer's first messages need, and returns a result<void>. The other side calls this as well,
/// at the same point of its use of the stream. `until` covers all of it.
///
/// When anything fails here, the peer is told why, and the queue pair is destroyed. Errors: those
/// of the stream; those of the handshake; those of `post_receives`; ECONNABORTED with the peer's
/// words when it failed there. Blocks and allocates.
template <connected_transport Transport, class PostReceives>
  requires std::same_as<std::invoke_result_t<PostReceives, queue_pair<Transport>&>, result<void>>
[[nodiscard]] result<queue_pair<Transport>> connect_queue_pair(
    prepared_queue_pair<Transport>&& prepared, stream& peer, deadline until,
    PostReceives&& post_receives) {
  auto taken = std::move(prepared);
  VERBENA_TRY(const auto theirs, detail::exchange_endpoints(taken.endpoint(), peer, until));
  auto connected = std::move(taken).handshake(theirs);
  if (!connected) return detail::give_up(std::move(connected).error(), peer);
  if (auto posted = std::forward<PostReceives>(post_receives)(*connected); !posted)
    return detail::give_up(std::move(posted).error(), peer);
  VERBENA_TRY_VOID(detail::wait_until_both_are_ready(peer, until));
  return connected;
}

/// The same for a side whose peer does not begin with messages: nothing is posted.
template <connected_transport Transport>
[[nodiscard]] result<queue_pair<Transport>> connect_queue_pair(
    prepared_queue_pair<Transport>&& prepared, stream& peer, deadline until) {
  return connect_queue_pair(std::move(prepared), peer, until,
                            [](queue_pair<Transport>&) -> result<void> { return {}; });
}

}  // namespace verbena::inline VERBENA_ABI::bringup
