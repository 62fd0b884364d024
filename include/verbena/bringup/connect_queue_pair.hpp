// SPDX-License-Identifier: MIT
// Two prepared queue pairs and a stream between them become two connected queue pairs.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/frame.hpp"
#include "verbena/bringup/negotiation.hpp"
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
/// Says that we are ready, with `message`, and waits until the peer is: what it says.
[[nodiscard]] result<std::vector<std::byte>> wait_until_both_are_ready(
    stream& peer, deadline until, std::span<const std::byte> message);
/// Tells the peer what failed here, and returns it.
[[nodiscard]] error give_up(error why, stream& peer) noexcept;
}  // namespace detail

/// A connected queue pair, and what was agreed for it.
template <connected_transport Transport>
struct negotiated_queue_pair {
  queue_pair<Transport> queue;  ///< connected
  /// Nothing with a peer of an older Verbena, which makes no offers: its endpoint was all it told.
  std::optional<negotiated> terms;
  /// What the peer's application says: its negotiation_options::message.
  std::vector<std::byte> message;
};

/// Connects `prepared` with the peer's queue pair, and says what was agreed. Both sides offer the
/// addresses of their port, their limits and their wishes, decide by one rule (`decide()`), connect
/// and try the way; a port that changes meanwhile is asked again.
///
/// `post_receives` is called with the connected queue pair: it posts the receives that the peer's
/// first messages need, and returns a result<void>. The call comes back when the other side is
/// connected too and can receive: what either side sends first meets a posted receive. The other
/// side calls this as well, at the same point of its use of the stream. `until` covers all of it.
///
/// When anything fails here, the peer is told why, and the queue pair is destroyed. Errors: those
/// of `to_error()`, which say what does not go together; EHOSTUNREACH and EMSGSIZE when messages do
/// not get through; those of the stream and of the verbs; those of `post_receives`; ECONNABORTED
/// with the peer's words when it failed there. Blocks and allocates.
template <connected_transport Transport, class PostReceives>
  requires std::same_as<std::invoke_result_t<PostReceives, queue_pair<Transport>&>, result<void>>
[[nodiscard]] result<negotiated_queue_pair<Transport>> negotiate_queue_pair(
    prepared_queue_pair<Transport>&& prepared, stream& peer, deadline until,
    PostReceives&& post_receives, const negotiation_options& options = {}) {
  auto taken = std::move(prepared);
  std::optional<detail::connected_way> way;  // what tries it lasts until both are ready
  std::optional<result<queue_pair<Transport>>> connected;
  if (peer.version() < offers_since_version) {
    VERBENA_TRY(const auto theirs, detail::exchange_endpoints(taken.endpoint(), peer, until));
    connected.emplace(std::move(taken).handshake(theirs));
    if (!*connected) return detail::give_up(std::move(*connected).error(), peer);
  } else {
    VERBENA_TRY(way, detail::negotiate({.pair = taken,
                                        .init = taken.init_attributes(),
                                        .wishes = detail::wishes_of(taken.options())},
                                       peer, until, options));
    connected.emplace(std::move(taken).into_queue_pair());
  }
  if (auto posted = std::forward<PostReceives>(post_receives)(**connected); !posted)
    return detail::give_up(std::move(posted).error(), peer);
  VERBENA_TRY(auto message, detail::wait_until_both_are_ready(peer, until, options.message));
  negotiated_queue_pair<Transport> made{
      .queue = **std::move(connected), .terms = std::nullopt, .message = std::move(message)};
  if (way) made.terms.emplace(std::move(way->what));
  return made;
}

/// The same for those who need the queue pair alone.
template <connected_transport Transport, class PostReceives>
  requires std::same_as<std::invoke_result_t<PostReceives, queue_pair<Transport>&>, result<void>>
[[nodiscard]] result<queue_pair<Transport>> connect_queue_pair(
    prepared_queue_pair<Transport>&& prepared, stream& peer, deadline until,
    PostReceives&& post_receives, const negotiation_options& options = {}) {
  VERBENA_TRY(auto made, negotiate_queue_pair(std::move(prepared), peer, until,
                                              std::forward<PostReceives>(post_receives), options));
  return std::move(made.queue);
}

/// The same for a side whose peer does not begin with messages: nothing is posted.
template <connected_transport Transport>
[[nodiscard]] result<queue_pair<Transport>> connect_queue_pair(
    prepared_queue_pair<Transport>&& prepared, stream& peer, deadline until,
    const negotiation_options& options = {}) {
  return connect_queue_pair(
      std::move(prepared), peer, until, [](queue_pair<Transport>&) -> result<void> { return {}; },
      options);
}

}  // namespace verbena::inline VERBENA_ABI::bringup
