// SPDX-License-Identifier: MIT
// Message channels are made in two steps, like channels:
//
//   auto prepared = message_channel::prepare(pd, {.message_bytes = 1024}).value();
//   send_to_peer(prepared.endpoint().encode());
//   auto theirs = message_endpoint::decode(from_peer()).value();
//   auto channel = std::move(prepared).handshake(theirs).value();
//
// or over a stream, or by the connection manager (cm/connector.hpp, cm/listener.hpp).
#pragma once

#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/negotiation.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/message_channel.hpp"
#include "verbena/channel/message_endpoint.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"

namespace verbena::inline VERBENA_ABI::cm {
class connection_request;
class connector;
}  // namespace verbena::inline VERBENA_ABI::cm

namespace verbena::inline VERBENA_ABI {

/// A message_channel that has no peer yet; message_channel::prepare() makes it. When it is dropped,
/// or when connecting fails, its queue pair is destroyed.
/// Threads: one thread at a time.
class [[nodiscard]] prepared_message_channel {
 public:
  /// What the peer needs to connect to this side.
  [[nodiscard]] message_endpoint endpoint() const;

  /// Connects to the peer, whose endpoint came by other means: its own endpoint connects it to
  /// itself. Receives are posted before anything can arrive. The peer may not be ready by then: see
  /// prepared_queue_pair::handshake(), whose errors these are. Errors: also `not_supported` when
  /// one side requires credits and the other has them off; ENOMEM when receives cannot be posted.
  /// May block in the kernel while the peer's address is resolved.
  [[nodiscard]] result<message_channel> handshake(const message_endpoint& remote) &&;

  /// Connects to the peer at the other end of `peer`, who calls this too. Terms are exchanged, as a
  /// blob; then all is as prepared_channel::connect() says, and so are the errors; `protocol` for
  /// terms that break their format. When it comes back, both sides are ready. Blocks and allocates.
  [[nodiscard]] result<message_channel> connect(
      bringup::stream& peer, deadline until, const bringup::negotiation_options& options = {}) &&;

  /// Asks `peer` for a connection, by the connection manager: the way of cm::connector::connect(),
  /// whose errors these are. Terms travel with the request and the answer. The channel is prepared
  /// in a protection domain of `peer.context()`, with its port. On iWARP there is no other way.
  /// Blocks and allocates. Errors: also those of handshake(); `protocol` for terms that break their
  /// format.
  [[nodiscard]] result<message_channel> connect(cm::connector& peer, deadline until) &&;
  /// Grants a request: the same for cm::connection_request::accept(). A request whose terms do not
  /// fit is rejected.
  [[nodiscard]] result<message_channel> accept(cm::connection_request&& request, deadline until) &&;

 private:
  friend class message_channel;
  prepared_message_channel(detail::message_core_owner core, prepared_queue_pair<rc> queue) noexcept
      : core_(std::move(core)), queue_(std::move(queue)) {}

  // The queue pair goes first: it is declared last.
  detail::message_core_owner core_;
  prepared_queue_pair<rc> queue_;
};

}  // namespace verbena::inline VERBENA_ABI
