// SPDX-License-Identifier: MIT
// A channel gets a new connection:
//
//   auto again = channel.reconnect(stream, until).value();
//   if (again.peer() == reconnected_peer::another) …       // it knows nothing of what was before
//   if (again.settle(result) == delivery::not_done) …      // send it again
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "verbena/base/result.hpp"
#include "verbena/channel/continuation.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"

namespace verbena::inline VERBENA_ABI {

/// Who is at the other end of a channel that was connected again.
enum class reconnected_peer : std::uint8_t {
  same,     ///< the channel that it was connected to before
  another,  ///< another one: the peer's program was started anew, or made a new channel
  unknown,  ///< it did not say, now or before: no continuation came from it
};

/// What is known after a channel was connected again. Threads: immutable value.
class reconnection {
 public:
  /// Who the peer is.
  [[nodiscard]] reconnected_peer peer() const noexcept { return peer_; }
  /// How many messages of this side (sends, writes with a number) the peer has received over the
  /// connection before; nothing if that is not known: the peer is not the same, the two sides do
  /// not mean the same connection, or one of them lost its queue pair without seeing all
  /// completions.
  [[nodiscard]] std::optional<std::uint64_t> received_by_peer() const noexcept {
    return received_by_peer_;
  }
  /// What is known now of an operation of the connection before: of messages whose delivery was
  /// `unknown`, whether the peer's channel has received them. Everything else stays what it was,
  /// but for messages on iWARP, which succeed before the peer has them: if it lacks any of those
  /// that did, all that did are `unknown`, and received_by_peer() tells how many of them it has.
  ///
  /// A message is `done` when it was received into a buffer of the peer's channel, whose handle,
  /// call or scope was told. Results of earlier connections are left alone; no result may be older
  /// than 2^32 messages.
  [[nodiscard]] delivery settle(const operation_result& of) const noexcept;

 private:
  friend class channel;
  friend class prepared_reconnection;
  // What the last connection of `core` and the peer's continuation say about each other.
  reconnection(detail::channel_core& core, const std::optional<continuation>& told);

  reconnected_peer peer_ = reconnected_peer::unknown;
  std::optional<std::uint64_t> received_by_peer_;
  std::uint32_t first_failed_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t failed_but_received_ = 0;
  std::uint64_t succeeded_but_lost_ = 0;  // iWARP alone
};

/// A channel that has a new queue pair and no peer yet: channel::prepare_again() makes it. It must
/// not outlive the channel's use on its thread; the channel itself may go. When it is dropped, or
/// when connecting fails, its queue pair is destroyed, and the channel stays without a connection.
/// Threads: one thread at a time, together with the channel.
class [[nodiscard]] prepared_reconnection {
 public:
  /// Takes over that of `other`, which must not be used afterwards.
  prepared_reconnection(prepared_reconnection&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)),
        queue_(std::move(other.queue_)),
        continuation_(other.continuation_) {}
  prepared_reconnection& operator=(prepared_reconnection&&) = delete;
  prepared_reconnection(const prepared_reconnection&) = delete;
  prepared_reconnection& operator=(const prepared_reconnection&) = delete;
  ~prepared_reconnection() { detail::channel_core::release(core_); }

  /// What the peer needs to connect to this side.
  [[nodiscard]] verbena::endpoint endpoint() const { return queue_.endpoint(); }
  /// What the peer needs to know who this is, and what has arrived here.
  [[nodiscard]] const verbena::continuation& continuation() const noexcept { return continuation_; }

  /// Connects the channel to the peer, whose endpoint and continuation came by other means; nothing
  /// instead of the latter when there was none. Errors: those of prepared_queue_pair::handshake().
  [[nodiscard]] result<reconnection> handshake(
      const verbena::endpoint& remote, const std::optional<verbena::continuation>& told = {}) &&;

 private:
  friend class channel;
  prepared_reconnection(detail::channel_core& core, prepared_queue_pair<rc> queue)
      : core_(&core), queue_(std::move(queue)), continuation_(core.book().next()) {
    core.hold();
  }
  [[nodiscard]] reconnection with(queue_pair<rc> connected,
                                  const std::optional<verbena::continuation>& told) &&;

  detail::channel_core* core_;  // held
  prepared_queue_pair<rc> queue_;
  verbena::continuation continuation_;
};

}  // namespace verbena::inline VERBENA_ABI
