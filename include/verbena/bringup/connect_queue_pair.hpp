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
/// Sends the reason for the failure to the peer, and returns the reason.
[[nodiscard]] error give_up(error why, stream& peer) noexcept;
}  // namespace detail

/// Connects `prepared` to the peer's queue pair. Returns the queue pair and the negotiated
/// parameters. Both sides must call this function. The stream must not contain unread messages;
/// after success, the program can use the stream again.
///
/// The sides exchange the addresses and limits of their ports, and each side computes the same
/// connection parameters from them (`decide()`). The sides then connect and, depending on
/// `options.probing`, send probe messages. If a port changes during the negotiation, the sides
/// start over; after five attempts, the call fails. If the peer uses protocol version 1, the sides
/// exchange only endpoints.
///
/// Calls `post_receives` with the queue pair, which is in RTS. `post_receives` must post the
/// receives for the peer's first messages and return a `result<void>`. It must not post sends,
/// because the peer may have no receives yet. negotiate_queue_pair() returns only after
/// `post_receives` has returned on both sides. Therefore the first message of each side finds a
/// receive if the other side posted one.
///
/// `until` limits the time of waiting for the peer, but not the time in `post_receives` or in
/// system calls.
///
/// If a step fails, the queue pair is destroyed, and later calls with the stream return ENOTCONN.
/// The error is sent to the peer, except if the stream failed, if the peer sent its own error, or
/// if the data of the peer is malformed (its first bytes or the header of a frame). If the data is
/// malformed, close the stream: the peer's call fails only then.
///
/// Errors: `timed_out` if `until` expires, or if a port changed in each of five attempts; the
/// errors listed at negotiation::failure(); errors of the stream; the error that `post_receives`
/// returned. Blocks and allocates.
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

/// Connects like negotiate_queue_pair(), but returns only the queue pair.
template <connected_transport Transport, class PostReceives>
  requires std::same_as<std::invoke_result_t<PostReceives, queue_pair<Transport>&>, result<void>>
[[nodiscard]] result<queue_pair<Transport>> connect_queue_pair(
    prepared_queue_pair<Transport>&& prepared, stream& peer, deadline until,
    PostReceives&& post_receives, const negotiation_options& options = {}) {
  VERBENA_TRY(auto made, negotiate_queue_pair(std::move(prepared), peer, until,
                                              std::forward<PostReceives>(post_receives), options));
  return std::move(made.queue);
}

/// Connects like negotiate_queue_pair(), but posts no receives. Use it for a queue pair with an
/// SRQ, or if the peer does not send first.
template <connected_transport Transport>
[[nodiscard]] result<queue_pair<Transport>> connect_queue_pair(
    prepared_queue_pair<Transport>&& prepared, stream& peer, deadline until,
    const negotiation_options& options = {}) {
  return connect_queue_pair(
      std::move(prepared), peer, until, [](queue_pair<Transport>&) -> result<void> { return {}; },
      options);
}

}  // namespace verbena::inline VERBENA_ABI::bringup
