// SPDX-License-Identifier: MIT
// A channel is created in two steps, like a queue pair: create it, then connect it:
//
//   auto prepared = pd.create_channel({.queues = {.max_send_wr = 8}}).value();
//   send_to_peer(prepared.endpoint().encode());
//   auto channel = std::move(prepared).handshake(endpoint::decode(from_peer()).value()).value();
//
// or with the connection manager (cm/connector.hpp, cm/listener.hpp):
//
//   auto channel = std::move(prepared).connect(peer, {}, until).value();  // the active side, or
//   auto channel = std::move(prepared).accept(std::move(request), {}, until).value();  // passive
//
// connect_in_steps() and accept_in_steps() do not block.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/negotiation.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/channel_options.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/channel/resume_token.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI {

/// A channel without a peer, created by protection_domain::create_channel(). Keeps the protection
/// domain alive. The destructor and a failed attempt to connect destroy the queue pair; to try
/// again, create a new channel. After an attempt to connect, the object must not be used.
///
/// Threads: one thread at a time.
class [[nodiscard]] prepared_channel {
 public:
  /// Returns the endpoint of this side. Send it to the peer.
  [[nodiscard]] verbena::endpoint endpoint() const { return queue_.endpoint(); }
  /// Returns the options that the channel was created with.
  [[nodiscard]] const channel_options& options() const noexcept { return options_; }

  /// Returns the token that identifies this channel to the peer in channel::reconnect(). Send the
  /// token to the peer together with endpoint().
  [[nodiscard]] const verbena::resume_token& resume_token() const noexcept { return resume_token_; }

  /// Connects to the peer's endpoint, which the program has received by its own means. `peer_token`
  /// is the peer's resume_token(). Without `peer_token`, after a reconnection reconnection::peer()
  /// is `unknown` and reconnection::reconcile() changes no result. Passing endpoint() of this
  /// channel connects the channel to itself (loopback).
  ///
  /// When the call returns, the peer is possibly not ready to receive yet; see
  /// prepared_queue_pair::handshake(), which also lists the errors. Allocates; may block in the
  /// kernel while the peer's address is resolved.
  /// @{
  [[nodiscard]] result<channel> handshake(
      const verbena::endpoint& remote, const std::optional<verbena::resume_token>& peer_token) &&;
  [[nodiscard]] result<channel> handshake(const verbena::endpoint& remote) &&;
  /// @}

  /// Connects over the stream `peer`, like bringup::negotiate_queue_pair(). The peer process must
  /// call connect() or channel::reconnect() at the same time. `options.message` is ignored: the
  /// resume token is sent in its place.
  ///
  /// When the call returns, both queue pairs are in RTS, but neither has a posted receive. If a
  /// message arrives before a receive is posted, the sender's device repeats the message at most
  /// reliability::rnr_retry_count times; the default of channels is no limit.
  ///
  /// Errors: those of negotiate_queue_pair(), such as `timed_out` if `until` expires; `protocol` if
  /// the peer's message is neither empty nor a resume token. Blocks and allocates.
  [[nodiscard]] result<channel> connect(bringup::stream& peer, deadline until,
                                        const bringup::negotiation_options& options = {}) &&;
  /// Connects over the stream in steps that do not block. Until they have ended, the stream must
  /// not be moved or used; see bringup::negotiate_in_steps().
  [[nodiscard]] steps<channel> connect_in_steps(bringup::stream& peer, deadline until,
                                                bringup::negotiation_options options = {}) &&;

  /// Connects through the connection manager, like cm::connector::connect(). Destroying the channel
  /// closes the connection. Blocks until the connection is established or has failed, at most until
  /// `until`. Allocates.
  ///
  /// `prepare` is called before the peer can send. It may post receives, and must not use the
  /// channel in any other way: if it moves or closes the channel, the library stops the program. By
  /// default, no receives are posted. If `prepare` fails, its error is returned and the
  /// connection is not established; the peer receives a rejection, or on iWARP a disconnection.
  ///
  /// On iWARP, a channel can be connected only through the connection manager. iWARP does not
  /// repeat a message that arrives when no receive is posted, so post receives in `prepare`. If the
  /// passive side might send first, both sides must set cm::first_sender::passive.
  ///
  /// Errors: those of cm::connector::connect(), such as `timed_out`; `invalid_argument` if
  /// `options().route.port` is not `peer.port()`.
  ///
  /// If `options.private_data` is empty, the resume token (56 bytes) is sent as private data. If
  /// the program has private data, it can put `resume_token().encode()` at the beginning. If a side
  /// does not receive the token of the other side, then after a reconnection reconnection::peer()
  /// of that side is `unknown`, and reconnection::reconcile() changes no result.
  [[nodiscard]] result<channel> connect(cm::connector& peer, const cm::connection_options& options,
                                        deadline until, channel_preparation prepare = {}) &&;
  /// Accepts a connection request, like cm::connection_request::accept(). The rest of the
  /// description of connect() also applies to accept().
  [[nodiscard]] result<channel> accept(cm::connection_request&& request,
                                       const cm::connection_options& options, deadline until,
                                       channel_preparation prepare = {}) &&;
  /// Connects through the connection manager in steps that do not block. The private data is
  /// copied. The connector must outlive the steps, and must not be moved. If the steps are
  /// destroyed before the end, the connection and the queue pair are destroyed, and the receives
  /// that `prepare` posted end as `lost`.
  [[nodiscard]] steps<channel> connect_in_steps(cm::connector& peer,
                                                const cm::connection_options& options,
                                                deadline until,
                                                kept_channel_preparation prepare = {}) &&;
  /// Accepts a connection request in steps that do not block; see connect_in_steps().
  [[nodiscard]] steps<channel> accept_in_steps(cm::connection_request&& request,
                                               const cm::connection_options& options,
                                               deadline until,
                                               kept_channel_preparation prepare = {}) &&;

 private:
  friend class protection_domain;
  prepared_channel(prepared_queue_pair<rc> queue, detail::slot_reservation slots,
                   protection_domain domain, const channel_options& options);
  [[nodiscard]] static result<prepared_channel> create(
      const protection_domain& domain, const std::shared_ptr<detail::operation_table>& table,
      const channel_options& options);
  [[nodiscard]] channel with(queue_pair<rc> connected,
                             const std::optional<verbena::resume_token>& peer_token) &&;
  [[nodiscard]] static steps<channel> connect_over(prepared_channel self, bringup::stream& peer,
                                                   deadline until,
                                                   bringup::negotiation_options options);
  template <class Bring>
  [[nodiscard]] static steps<channel> manage(prepared_channel self, cm::connection_options options,
                                             kept_channel_preparation prepare, Bring bring_up);

  prepared_queue_pair<rc> queue_;
  detail::slot_reservation slots_;
  protection_domain domain_;
  channel_options options_;
  std::uint32_t max_read_sge_ = 1;
  detail::sole_owner<detail::connection_record> record_;
  verbena::resume_token resume_token_;
};

}  // namespace verbena::inline VERBENA_ABI
