// SPDX-License-Identifier: MIT
// A stream of messages in both directions over one reliable connection, without queues, completions
// and buffers to think about:
//
//   channel.send(bytes, until);                 copied, or inside the request
//   channel.send(std::move(buffer), {}, until); sent from where they are
//   auto message = channel.receive(until);      a buffer, which may be kept
//
// Signalling. Every request of a quarter of the queue asks for a completion, and so does each that
// takes the last place of its kind. So whenever a place is missing a request that asked is on its
// way, and its completion ends all requests before it, since a send queue works in order. What is
// left without one is made known by a small write: when somebody waits for it, or after many polls
// that found nothing.
//
// Credits. Each side has a word that the peer writes: how many receives it has posted since the
// beginning. A side sends its n-th message only when the word, or what was agreed at first, says n
// or more: so a receive is posted before the message arrives, and "receiver not ready" cannot
// happen. The write costs no receive, and has places of the send queue that no message takes.
//
// Why it cannot get stuck, if both programs poll and take what arrives: with credits every request
// in a send queue ends by the peer's adapter alone, so places come back. Whoever waits for credit
// has used all that was told; the peer, which sees that much arrive, has then no receive posted
// that it told of, and posts and tells the next as soon as it has a buffer, be it one. If the peer
// is gone instead, nothing that was sent would say so: who waits tries now and then with a write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/buffer_part.hpp"
#include "verbena/channel/message_channel_options.hpp"
#include "verbena/channel/message_counters.hpp"
#include "verbena/channel/message_failure.hpp"
#include "verbena/channel/received_message.hpp"
#include "verbena/channel/send_result.hpp"
#include "verbena/memory/buffer.hpp"
#include "verbena/memory/buffer_pool.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"

namespace verbena::inline VERBENA_ABI {

class prepared_message_channel;

namespace detail {
class message_core;
/// Destroys the queue pair, then the memory; keeps the memory for ever if it cannot.
struct message_core_end {
  void operator()(message_core* core) const noexcept;
};
using message_core_owner = std::unique_ptr<message_core, message_core_end>;
}  // namespace detail

/// Connected; prepare() begins to make one. Dropping it destroys its queue pair, and nothing waits:
/// drain() first, if messages are to arrive.
///
/// Messages arrive whole, once and in order. Sending and receiving neither allocate nor lock nor
/// call the system; all memory is the channel's, so no deadline has to end the connection: what is
/// posted stays posted when one passes.
/// Threads: one thread at a time; it may move from thread to thread. Messages that it gave, and
/// buffers, are independent of it.
class [[nodiscard]] message_channel {
 public:
  /// Allocates, registers and creates everything but the connection. Allocates; may block in the
  /// kernel. Errors: `invalid_argument` for options out of their ranges; those of
  /// buffer_pool::create(), context::create_cq() and protection_domain::create_queue_pair().
  [[nodiscard]] static result<prepared_message_channel> prepare(
      const protection_domain& domain, const message_channel_options& options = {});
  /// The same with receives from `receives`, which other channels may share: what one of them holds
  /// the others lack. Errors: also `invalid_argument` for a pool of another protection domain,
  /// without local_write, or whose largest buffers are shorter than a message.
  [[nodiscard]] static result<prepared_message_channel> prepare(
      const protection_domain& domain, const buffer_pool& receives,
      const message_channel_options& options = {});

  /// Takes a copy of `bytes` to be sent, if there is room; polls once if there is none.
  [[nodiscard]] send_result try_send(std::span<const std::byte> bytes);
  /// Takes what `part` says of `memory` to be sent from where it is. The buffer goes back to its
  /// pool when the adapter is done with it; if it is refused it stays yours.
  [[nodiscard]] send_result try_send(buffer&& memory, const buffer_part& part = {});
  /// As try_send(), and waits for room until `until`. It has to be taken from the other direction
  /// as well: two sides that only send and never receive both wait.
  [[nodiscard]] send_result send(std::span<const std::byte> bytes, deadline until);
  /// The same.
  [[nodiscard]] send_result send(buffer&& memory, const buffer_part& part, deadline until);

  /// A buffer for a message, of at least message_bytes(); nothing if all are on their way or kept.
  /// Polls once if there is none.
  [[nodiscard]] std::optional<buffer> take_buffer();
  /// The same, and waits for one.
  [[nodiscard]] std::optional<buffer> take_buffer(deadline until);

  /// The next message, if one has arrived. Polls once if none was there. What arrived before a
  /// failure can still be taken after it.
  [[nodiscard]] std::optional<received_message> try_receive();
  /// The same, and waits for one; nothing when `until` passes or the channel has failed.
  [[nodiscard]] std::optional<received_message> receive(deadline until);

  /// Polls once, posts receives and tells the peer of them. Calls that wait do it all the time; who
  /// neither sends nor receives for long calls it now and then. Never blocks.
  void progress();
  /// Waits until all that was sent is known to be delivered; false when `until` passes first or the
  /// channel has failed.
  [[nodiscard]] bool drain(deadline until);
  /// Ends the channel: moves its queue pair to the error state and waits until the adapter has let
  /// go of all memory. What was not known to be delivered is unknown(). Blocks for 5 s at most.
  void flush();

  /// Why it has ended; nullptr while it works. Sends are then refused, and receives get what had
  /// arrived.
  [[nodiscard]] const message_failure* failure() const;
  /// The failure in words: with the peer, what the device says, the usual causes, and which
  /// messages are unknown. Asks the device. Precondition: failure() != nullptr. Allocates.
  [[nodiscard]] error describe() const;

  /// Messages that were taken to be sent: numbers 1 to sent().
  [[nodiscard]] std::uint64_t sent() const;
  /// Messages of which a completion said that they were delivered: numbers 1 to delivered(). On
  /// iWARP that says less: the peer's side of the connection has them, perhaps not yet its memory.
  [[nodiscard]] std::uint64_t delivered() const;
  /// Messages that arrived here: numbers 1 to received() of the peer.
  [[nodiscard]] std::uint64_t received() const;
  /// Messages that may or may not have been delivered: those after delivered(). Of a channel that
  /// works, those on their way; once it has failed it does not change any more.
  [[nodiscard]] message_range unknown() const {
    return {.first = delivered() + 1, .count = sent() - delivered()};
  }
  /// What it did.
  [[nodiscard]] const message_counters& counters() const;

  /// The longest message, as agreed.
  [[nodiscard]] std::uint32_t message_bytes() const;
  /// The longest message that travels inside its request; 0: none.
  [[nodiscard]] std::uint32_t inline_bytes() const;
  /// Whether messages wait for credits, as agreed.
  [[nodiscard]] bool uses_credits() const;
  /// The pool of its receives, for who wants to know how many are taken.
  [[nodiscard]] const buffer_pool& receive_pool() const;
  /// The queue pair, to be asked; nullptr if it was lost.
  [[nodiscard]] const queue_pair<rc>* queue() const;

 private:
  friend class prepared_message_channel;
  explicit message_channel(detail::message_core_owner core) noexcept : core_(std::move(core)) {}
  [[nodiscard]] detail::message_core& core() const {
    VERBENA_ASSERT(core_ != nullptr, "a moved-from message_channel must not be used");
    return *core_;
  }

  detail::message_core_owner core_;
};

}  // namespace verbena::inline VERBENA_ABI
