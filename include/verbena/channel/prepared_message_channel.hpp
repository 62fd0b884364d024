// SPDX-License-Identifier: MIT
// Message channels are created in two steps, like channels:
//
//   auto prepared = message_channel::prepare(pd, {.message_bytes = 1024}).value();
//   send_to_peer(prepared.endpoint().encode());
//   auto theirs = message_endpoint::decode(from_peer()).value();
//   auto channel = std::move(prepared).handshake(theirs).value();
//
// or over a stream, or with the connection manager (cm/connector.hpp, cm/listener.hpp).
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

/// A message_channel without a peer, created by message_channel::prepare(). If it is destroyed, or
/// if connecting fails, its queue pair is destroyed. Threads: one thread at a time.
class [[nodiscard]] prepared_message_channel {
 public:
  /// Returns the endpoint and the terms of this side, for the peer.
  [[nodiscard]] message_endpoint endpoint() const;

  /// Connects to an endpoint that the program has exchanged.
  ///
  /// Its own endpoint connects the channel to itself. Receives are posted before a message can
  /// arrive. The peer may not be ready when the call returns: see prepared_queue_pair::handshake().
  /// May block in the kernel while the address of the peer is resolved.
  ///
  /// Errors: those of prepared_queue_pair::handshake(); `not_supported` if one side requires
  /// credits and the other has them off; ENOMEM if receives cannot be posted.
  [[nodiscard]] result<message_channel> handshake(const message_endpoint& remote) &&;

  /// Exchanges terms and connects over `peer`; the peer calls connect() too.
  ///
  /// When the call returns, both sides are ready. Errors: those of prepared_channel::connect() and
  /// of handshake(); `protocol` for malformed terms. Blocks and allocates.
  [[nodiscard]] result<message_channel> connect(
      bringup::stream& peer, deadline until, const bringup::negotiation_options& options = {}) &&;

  /// Connects with the connection manager; the terms travel as private data.
  ///
  /// The protection domain belongs to `peer.context()`. iWARP supports no other way. Errors: those
  /// of cm::connector::connect() and of handshake(); `protocol` for malformed terms. Blocks and
  /// allocates.
  [[nodiscard]] result<message_channel> connect(cm::connector& peer, deadline until) &&;
  /// Accepts a request of the connection manager. Rejects it if the terms do not match.
  [[nodiscard]] result<message_channel> accept(cm::connection_request&& request, deadline until) &&;

 private:
  friend class message_channel;
  prepared_message_channel(detail::message_core_owner core, prepared_queue_pair<rc> queue) noexcept
      : core_(std::move(core)), queue_(std::move(queue)) {}

  // The queue pair is declared last, so that it is destroyed first.
  detail::message_core_owner core_;
  prepared_queue_pair<rc> queue_;
};

}  // namespace verbena::inline VERBENA_ABI
