// SPDX-License-Identifier: MIT
// Channels are made in two steps, like queue pairs:
//
//   auto prepared = pd.create_channel({.max_send_wr = 8}).value();
//   send_to_peer(prepared.endpoint().encode());
//   auto channel = std::move(prepared).handshake(endpoint::decode(from_peer()).value()).value();
//
// or, by the connection manager (cm/connector.hpp, cm/listener.hpp),
//
//   auto channel = std::move(prepared).connect(peer, {}, until).value();     // the side that asks
//   auto channel = std::move(prepared).accept(std::move(request), {}, until).value();  // the other
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
#include "verbena/channel/continuation.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI {

/// A channel that has no peer yet; protection_domain::create_channel() makes it. When it is
/// dropped, or when connecting fails, its queue pair is destroyed.
/// Threads: one thread at a time.
class [[nodiscard]] prepared_channel {
 public:
  /// What the peer needs to connect to this side.
  [[nodiscard]] verbena::endpoint endpoint() const { return queue_.endpoint(); }
  /// The options that it was created with.
  [[nodiscard]] const channel_options& options() const noexcept { return options_; }

  /// What lets the peer know this side again after channel::reconnect(): its bytes may go to it
  /// along with the endpoint's.
  [[nodiscard]] const verbena::continuation& continuation() const noexcept { return continuation_; }

  /// Connects to the peer, whose endpoint came by other means, and its continuation if it has one:
  /// its own endpoint connects it to itself. The peer may not be ready by then: see
  /// prepared_queue_pair::handshake(), whose errors these are. May block in the kernel while the
  /// peer's address is resolved.
  [[nodiscard]] result<channel> handshake(const verbena::endpoint& remote,
                                          const std::optional<verbena::continuation>& told = {}) &&;

  /// Connects to the peer at the other end of `peer`, who calls this too, or channel::reconnect();
  /// what is offered, decided and tried is what bringup::negotiate_queue_pair() says, and so are
  /// the errors. The message of `options` is replaced by the continuation. When it comes back,
  /// both sides are ready. Blocks and allocates.
  [[nodiscard]] result<channel> connect(bringup::stream& peer, deadline until,
                                        const bringup::negotiation_options& options = {}) &&;

  /// Asks `peer` for a connection, by the connection manager: the way of cm::connector::connect(),
  /// whose errors these are; `prepare` is called before the peer knows that it may send, and its
  /// error ends the connection. The channel is made in a protection domain of `peer.context()`,
  /// with `peer.port()`. Closing the channel closes the connection. Blocks and allocates.
  ///
  /// On iWARP there is no other way, and no retry for a message that finds no receive: `prepare`
  /// posts them, and where both sides may send first, both say cm::first_sender::answering.
  ///
  /// Private data of `options` is the program's. Without any, 56 bytes that say who this channel is
  /// are sent for channel::reconnect().
  [[nodiscard]] result<channel> connect(cm::connector& peer, const cm::connection_options& options,
                                        deadline until, const channel_preparation& prepare = {}) &&;
  /// Grants a request: the same for cm::connection_request::accept().
  [[nodiscard]] result<channel> accept(cm::connection_request&& request,
                                       const cm::connection_options& options, deadline until,
                                       const channel_preparation& prepare = {}) &&;

 private:
  friend class protection_domain;
  prepared_channel(prepared_queue_pair<rc> queue, detail::slot_reservation slots,
                   protection_domain domain, const channel_options& options) noexcept
      : queue_(std::move(queue)),
        slots_(std::move(slots)),
        domain_(std::move(domain)),
        options_(options),
        book_(options.counts_messages ? detail::counting::yes : detail::counting::no),
        continuation_(book_.next()) {}
  [[nodiscard]] static result<prepared_channel> create(
      const protection_domain& domain, const std::shared_ptr<detail::operation_table>& table,
      const channel_options& options);
  [[nodiscard]] channel with(queue_pair<rc> connected,
                             const std::optional<verbena::continuation>& told) &&;
  template <class Bring>
  [[nodiscard]] static result<channel> manage(prepared_channel self,
                                              const cm::connection_options& options,
                                              const channel_preparation& prepare, Bring&& bring_up);

  prepared_queue_pair<rc> queue_;
  detail::slot_reservation slots_;
  protection_domain domain_;
  channel_options options_;
  std::uint32_t max_read_sge_ = 1;
  std::optional<gid_entry> chosen_gid_;
  detail::connection_book book_;
  verbena::continuation continuation_;
};

}  // namespace verbena::inline VERBENA_ABI
