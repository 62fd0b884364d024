// SPDX-License-Identifier: MIT
// Channels are created in two steps, like queue pairs:
//
//   auto prepared = pd.create_channel({.queues = {.max_send_wr = 8}}).value();
//   send_to_peer(prepared.endpoint().encode());
//   auto channel = std::move(prepared).handshake(endpoint::decode(from_peer()).value()).value();
//
// or with the connection manager (cm/connector.hpp, cm/listener.hpp):
//
//   auto channel = std::move(prepared).connect(peer, {}, until).value();  // the active side, or
//   auto channel = std::move(prepared).accept(std::move(request), {}, until).value();  // passive
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
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

/// A channel without a peer, created by protection_domain::create_channel(). If it is destroyed, or
/// if connecting fails, its queue pair is destroyed.
/// Threads: one thread at a time.
class [[nodiscard]] prepared_channel {
 public:
  /// Returns the endpoint of this side, for the peer.
  [[nodiscard]] verbena::endpoint endpoint() const { return queue_.endpoint(); }
  /// Returns the options that the channel was created with.
  [[nodiscard]] const channel_options& options() const noexcept { return options_; }

  /// Returns the token by which the peer recognizes this channel after channel::reconnect(). Send
  /// it along with the endpoint.
  [[nodiscard]] const verbena::resume_token& resume_token() const noexcept { return resume_token_; }

  /// Connects to an endpoint that the program has exchanged; `peer_token` is the token of the peer;
  /// without it, channel::reconnect() cannot reconcile. endpoint() of this channel makes a loopback
  /// connection.
  ///
  /// The peer may not be ready when the call returns: see prepared_queue_pair::handshake(), also
  /// for the errors. Allocates; may block in the kernel while the address of the peer is resolved.
  /// @{
  [[nodiscard]] result<channel> handshake(
      const verbena::endpoint& remote, const std::optional<verbena::resume_token>& peer_token) &&;
  [[nodiscard]] result<channel> handshake(const verbena::endpoint& remote) &&;
  /// @}

  /// Connects over `peer`, as bringup::negotiate_queue_pair(). The peer calls connect() or
  /// channel::reconnect(). The message of `options` is replaced by the resume token.
  ///
  /// When the call returns, both queue pairs can receive, but no receives are posted: a message
  /// that arrives before the first one is retried (reliability::rnr_retry_count). Errors: those of
  /// negotiate_queue_pair(); `protocol` if the peer's message is not a resume token. Blocks and
  /// allocates.
  [[nodiscard]] result<channel> connect(bringup::stream& peer, deadline until,
                                        const bringup::negotiation_options& options = {}) &&;

  /// Connects with the connection manager, as cm::connector::connect(), which lists the errors.
  ///
  /// `prepare` posts receives before the peer may send, and does nothing else with the channel. If
  /// it fails, the connection ends. Preconditions: the protection domain belongs to
  /// `peer.context()`, and `options().route.port` is `peer.port()`. Destroying the channel closes
  /// the connection. Blocks and allocates.
  ///
  /// On iWARP, only the connection manager connects a channel, and a message that finds no receive
  /// is not retried: post the receives in `prepare`. If the accepting side may send before it has
  /// received a message, both sides set cm::first_sender::passive.
  ///
  /// If `options` has no private data, the resume token of 56 bytes is sent. Otherwise the peer
  /// does not get it, and channel::reconnect() cannot match the connections.
  [[nodiscard]] result<channel> connect(cm::connector& peer, const cm::connection_options& options,
                                        deadline until, channel_preparation prepare = {}) &&;
  /// Accepts a request, as cm::connection_request::accept(); otherwise as connect().
  [[nodiscard]] result<channel> accept(cm::connection_request&& request,
                                       const cm::connection_options& options, deadline until,
                                       channel_preparation prepare = {}) &&;

 private:
  friend class protection_domain;
  prepared_channel(prepared_queue_pair<rc> queue, detail::slot_reservation slots,
                   protection_domain domain, const channel_options& options);
  [[nodiscard]] static result<prepared_channel> create(
      const protection_domain& domain, const std::shared_ptr<detail::operation_table>& table,
      const channel_options& options);
  [[nodiscard]] channel with(queue_pair<rc> connected,
                             const std::optional<verbena::resume_token>& peer_token) &&;
  template <class Bring>
  [[nodiscard]] static result<channel> manage(prepared_channel self,
                                              const cm::connection_options& options,
                                              channel_preparation prepare, Bring&& bring_up);

  prepared_queue_pair<rc> queue_;
  detail::slot_reservation slots_;
  protection_domain domain_;
  channel_options options_;
  std::uint32_t max_read_sge_ = 1;
  detail::sole_owner<detail::connection_record> record_;
  verbena::resume_token resume_token_;
};

}  // namespace verbena::inline VERBENA_ABI
