// SPDX-License-Identifier: MIT
// A message channel is created in two steps, like a channel:
//
//   auto prepared = message_channel::prepare(pd, {.message_bytes = 1024}).value();
//   send_to_peer(prepared.endpoint().encode());
//   auto theirs = message_endpoint::decode(from_peer()).value();
//   auto channel = std::move(prepared).handshake(theirs).value();
//
// or over a stream, or with the connection manager (cm/connector.hpp, cm/listener.hpp).
// connect_in_steps() and accept_in_steps() do not block.
#pragma once

#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
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

/// A message_channel without a peer, created by message_channel::prepare(). The destructor and a
/// failed attempt to connect destroy the queue pair. Threads: one thread at a time.
class [[nodiscard]] prepared_message_channel {
 public:
  /// Returns the endpoint and the terms of this side. Send them to the peer.
  [[nodiscard]] message_endpoint endpoint() const;

  /// Connects to the peer's endpoint, which the program has received by its own means.
  ///
  /// Passing endpoint() of this channel connects the channel to itself. Receives are posted before
  /// a message can arrive. When the call returns, the peer is possibly not ready yet: see
  /// prepared_queue_pair::handshake(). May block in the kernel while the peer's address is
  /// resolved.
  ///
  /// Errors: those of prepared_queue_pair::handshake(); `not_supported` if one side requires
  /// credits and the other side disables them; ENOMEM if receives cannot be posted.
  [[nodiscard]] result<message_channel> handshake(const message_endpoint& remote) &&;

  /// Exchanges terms and connects over `peer`. The peer process must call connect() too.
  ///
  /// When the call returns, both sides are ready. Errors: those of prepared_channel::connect() and
  /// of handshake(); `protocol` for malformed terms. Blocks and allocates.
  [[nodiscard]] result<message_channel> connect(
      bringup::stream& peer, deadline until, const bringup::negotiation_options& options = {}) &&;
  /// Connects over the stream in steps that do not block; see
  /// prepared_channel::connect_in_steps(). `options.message` is copied.
  [[nodiscard]] steps<message_channel> connect_in_steps(
      bringup::stream& peer, deadline until, const bringup::negotiation_options& options = {}) &&;

  /// Connects through the connection manager; the terms are sent as private data.
  ///
  /// Precondition: the protection domain belongs to `peer.context()`. On iWARP, a message channel
  /// can be connected only through the connection manager. Errors: those of
  /// cm::connector::connect() and of handshake(); `protocol` for malformed terms. Blocks and
  /// allocates.
  [[nodiscard]] result<message_channel> connect(cm::connector& peer, deadline until) &&;
  /// Accepts a request of the connection manager. Rejects it if the terms do not match.
  [[nodiscard]] result<message_channel> accept(cm::connection_request&& request, deadline until) &&;
  /// Connects through the connection manager in steps that do not block. The connector must outlive
  /// the steps, and must not be moved.
  [[nodiscard]] steps<message_channel> connect_in_steps(cm::connector& peer, deadline until) &&;
  /// Accepts a request in steps that do not block, which own the request.
  [[nodiscard]] steps<message_channel> accept_in_steps(cm::connection_request&& request,
                                                       deadline until) &&;

 private:
  friend class message_channel;
  prepared_message_channel(detail::message_core_owner core, prepared_queue_pair<rc> queue) noexcept
      : core_(std::move(core)), queue_(std::move(queue)) {}
  [[nodiscard]] static steps<message_channel> negotiate(prepared_message_channel self,
                                                        bringup::stream& peer, deadline until,
                                                        bringup::negotiation_options options);
  [[nodiscard]] static steps<message_channel> request(prepared_message_channel self,
                                                      cm::connector& peer, deadline until);
  [[nodiscard]] static steps<message_channel> answer(prepared_message_channel self,
                                                     cm::connection_request request,
                                                     deadline until);

  // The queue pair is declared last, so that it is destroyed first.
  detail::message_core_owner core_;
  prepared_queue_pair<rc> queue_;
};

}  // namespace verbena::inline VERBENA_ABI
