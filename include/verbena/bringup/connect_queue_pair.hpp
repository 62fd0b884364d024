// SPDX-License-Identifier: MIT
// Connecting two queue pairs over a stream, in one blocking call.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/negotiation.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

namespace detail {
/// Sends the reason of the failure to the peer, and returns the reason.
[[nodiscard]] error give_up(error why, stream& peer) noexcept;
}  // namespace detail

/// Connects `prepared` with the peer's queue pair, and returns what was agreed. Both sides call
/// this function, with no unread message on the stream. They exchange the addresses and limits of
/// their ports, compute the same connection parameters from both (`decide()`), connect and,
/// depending on `options.probing`, send probe messages. If a port changes meanwhile, they begin
/// again; after five attempts they fail. With a peer of version 1 only endpoints are exchanged.
///
/// `post_receives` is called with the connected queue pair: it posts the receives for the peer's
/// first messages and returns a `result<void>`. The function returns after both sides have called
/// theirs, so the first message of each side finds a receive if the other side posted one. `until`
/// limits the waits for the peer, but not `post_receives` or calls of the kernel.
///
/// If a step fails, the queue pair is destroyed, and the stream cannot be used again. The reason is
/// sent to the peer, unless the stream itself failed. Errors: those of negotiation::failure(), of
/// the stream and of `post_receives`. Blocks and allocates.
template <connected_transport Transport, class PostReceives>
  requires std::same_as<std::invoke_result_t<PostReceives, queue_pair<Transport>&>, result<void>>
[[nodiscard]] result<negotiated_queue_pair<Transport>> negotiate_queue_pair(
    prepared_queue_pair<Transport>&& prepared, stream& peer, deadline until,
    PostReceives&& post_receives, const negotiation_options& options = {}) {
  negotiation<Transport> steps(std::move(prepared), options,
                               {.name = peer.peer(), .version = peer.version()});
  VERBENA_TRY_VOID(detail::run(steps, peer, until));
  if (auto posted = std::forward<PostReceives>(post_receives)(steps.qp()); posted)
    steps.set_ready();
  else
    steps.abandon(std::move(posted).error());
  VERBENA_TRY_VOID(detail::run(steps, peer, until));
  return std::move(steps).finish();
}

/// Connects as negotiate_queue_pair(), and returns the queue pair only.
template <connected_transport Transport, class PostReceives>
  requires std::same_as<std::invoke_result_t<PostReceives, queue_pair<Transport>&>, result<void>>
[[nodiscard]] result<queue_pair<Transport>> connect_queue_pair(
    prepared_queue_pair<Transport>&& prepared, stream& peer, deadline until,
    PostReceives&& post_receives, const negotiation_options& options = {}) {
  VERBENA_TRY(auto made, negotiate_queue_pair(std::move(prepared), peer, until,
                                              std::forward<PostReceives>(post_receives), options));
  return std::move(made.queue);
}

/// Connects as negotiate_queue_pair(), without posting receives: for queue pairs with an SRQ, and
/// for a side whose peer does not send first.
template <connected_transport Transport>
[[nodiscard]] result<queue_pair<Transport>> connect_queue_pair(
    prepared_queue_pair<Transport>&& prepared, stream& peer, deadline until,
    const negotiation_options& options = {}) {
  return connect_queue_pair(
      std::move(prepared), peer, until, [](queue_pair<Transport>&) -> result<void> { return {}; },
      options);
}

}  // namespace verbena::inline VERBENA_ABI::bringup
