// SPDX-License-Identifier: MIT
// The result of reconnecting a channel:
//
//   auto again = channel.reconnect(stream, until).value();
//   if (again.peer() == reconnected_peer::another) …         // the peer's program was restarted
//   if (again.reconcile(result) == delivery::not_done) …     // send it again
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "verbena/base/result.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/resume_token.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"

namespace verbena::inline VERBENA_ABI {

/// The identity of the peer after a reconnection.
enum class reconnected_peer : std::uint8_t {
  same,     ///< the channel of the previous connection
  another,  ///< another channel: the peer's program was restarted, or created a new channel
  unknown,  ///< no resume token was received, now or before
};

/// The state of the old connection after a reconnection. Threads: immutable value.
class reconnection {
 public:
  /// Returns the identity of the peer.
  [[nodiscard]] reconnected_peer peer() const noexcept { return peer_; }
  /// Returns how many messages of this side (sends, writes with immediate data) the peer received
  /// over the old connection.
  ///
  /// Returns `nullopt` if peer() is not `same`, if one side does not count messages
  /// (channel_options::counts_messages), if the resume tokens belong to different connections, or
  /// if one side destroyed its queue pair before it had polled all completions.
  [[nodiscard]] std::optional<std::uint64_t> received_by_peer() const noexcept {
    return received_by_peer_;
  }
  /// Returns the delivery of an operation of the old connection, after comparison with the peer's
  /// count.
  ///
  /// Resolves messages whose delivery was `unknown`: they are `done` if the peer's channel received
  /// them into a buffer and delivered them to an operation. All other results keep their delivery,
  /// except on iWARP, where messages can succeed before the peer has received them: if the peer
  /// lacks one of them, all successful messages of that connection become `unknown`, and
  /// received_by_peer() returns how many the peer has. Results of earlier connections are
  /// unchanged. A result must not be older than 2^32 messages.
  [[nodiscard]] delivery reconcile(const operation_result& of) const noexcept;

 private:
  friend class channel;
  friend class prepared_reconnection;
  // Compares the last connection of `core` with the resume token of the peer.
  reconnection(detail::channel_core& core, const std::optional<resume_token>& peer_token);

  reconnected_peer peer_ = reconnected_peer::unknown;
  std::optional<std::uint64_t> received_by_peer_;
  std::uint32_t first_failed_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t failed_but_received_ = 0;
  std::uint64_t succeeded_but_lost_ = 0;  // iWARP only
};

/// A channel with a new queue pair and without a peer, created by channel::prepare_reconnect().
///
/// It may outlive the channel. The destructor and a failed attempt to connect destroy the queue
/// pair; the channel then has no connection.
/// Threads: one thread at a time, for the object and its channel together.
class [[nodiscard]] prepared_reconnection {
 public:
  /// Takes the state of `other`, which must not be used afterwards.
  prepared_reconnection(prepared_reconnection&& other) noexcept;
  prepared_reconnection& operator=(prepared_reconnection&&) = delete;
  prepared_reconnection(const prepared_reconnection&) = delete;
  prepared_reconnection& operator=(const prepared_reconnection&) = delete;
  ~prepared_reconnection();

  /// Returns the endpoint of this side. Send it to the peer.
  [[nodiscard]] verbena::endpoint endpoint() const;
  /// Returns the identity of this channel and its count of received messages. Send them to the
  /// peer.
  [[nodiscard]] const verbena::resume_token& resume_token() const noexcept { return resume_token_; }

  /// Connects the channel to the peer's endpoint, which the program has received by its own means.
  /// `peer_token` is the peer's resume_token(). Without it, peer() of the result is `unknown`.
  /// Errors: those of prepared_queue_pair::handshake().
  /// @{
  [[nodiscard]] result<reconnection> handshake(
      const verbena::endpoint& remote, const std::optional<verbena::resume_token>& peer_token) &&;
  [[nodiscard]] result<reconnection> handshake(const verbena::endpoint& remote) &&;
  /// @}

 private:
  friend class channel;
  prepared_reconnection(detail::channel_core& core, prepared_queue_pair<rc> queue);
  [[nodiscard]] reconnection with(queue_pair<rc> connected,
                                  const std::optional<verbena::resume_token>& peer_token) &&;

  detail::channel_core* core_;  // held
  prepared_queue_pair<rc> queue_;
  verbena::resume_token resume_token_;
};

}  // namespace verbena::inline VERBENA_ABI
