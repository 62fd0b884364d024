// SPDX-License-Identifier: MIT
// Connecting two queue pairs over a stream.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/function_ref.hpp"
#include "verbena/base/owned_function.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/negotiation.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

namespace detail {
/// Sends the reason for the failure to the peer, and returns the reason.
[[nodiscard]] error give_up(error why, stream& peer) noexcept;

/// Refuses the connection if a function of the program throws. Threads: one thread at a time.
class refusal_on_exception {
 public:
  explicit refusal_on_exception(stream& peer) noexcept : peer_(&peer) {}
  refusal_on_exception(const refusal_on_exception&) = delete;
  refusal_on_exception& operator=(const refusal_on_exception&) = delete;
  ~refusal_on_exception() {
    if (peer_ != nullptr) peer_->refuse("a function of the peer's program threw an exception");
  }
  void dismiss() noexcept { peer_ = nullptr; }

 private:
  stream* peer_;
};
}  // namespace detail

/// Performs negotiate_queue_pair() in steps that do not wait for the peer. On RoCE the transition
/// to RTR may block in the kernel while the peer's address is resolved. `post_receives` may be
/// empty. The stream must outlive the steps, and must not be moved or used until they have ended.
/// If the steps are destroyed before the end, the queue pair is destroyed, and later calls with the
/// stream return ENOTCONN. Allocates.
template <connected_transport Transport>
[[nodiscard]] steps<negotiated_queue_pair<Transport>> negotiate_in_steps(
    prepared_queue_pair<Transport> prepared, stream& peer, deadline until,
    owned_function<result<void>(queue_pair<Transport>&)> post_receives = {},
    negotiation_options options = {}) {
  negotiation<Transport> core(std::move(prepared), options,
                              {.name = peer.peer(), .version = peer.version()});
  VERBENA_CO_TRY_VOID(co_await detail::run(core, peer, until));
  {
    detail::refusal_on_exception refusing(peer);
    if (auto posted = post_receives ? post_receives(core.qp()) : result<void>(); posted)
      core.set_ready();
    else
      core.abandon(std::move(posted).error());
    refusing.dismiss();
  }
  VERBENA_CO_TRY_VOID(co_await detail::run(core, peer, until));
  co_return std::move(core).finish();
}

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
  const function_ref<result<void>(queue_pair<Transport>&)> post(post_receives);
  return negotiate_in_steps<Transport>(std::move(prepared), peer, until, post, options).wait();
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
