// SPDX-License-Identifier: MIT
// Whole messages in both directions over one reliable connection, with flow control:
//
//   auto channel = message_channel::connect("host:7471");  // the peer: listen_once(":7471")
//   channel->send(bytes_of("hello")).value();
//   auto message = channel->receive().value();             // a buffer, which may be kept
//
// How it works: src/channel/message_core.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/buffer_slice.hpp"
#include "verbena/channel/message_counters.hpp"
#include "verbena/channel/message_range.hpp"
#include "verbena/channel/receive_result.hpp"
#include "verbena/channel/received_message.hpp"
#include "verbena/channel/send_result.hpp"
#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {
class message_channel_state;
}

namespace verbena::inline VERBENA_ABI::cm {
class connection;
}
namespace verbena::inline VERBENA_ABI {

class buffer_pool;
class completion_hub;
class prepared_message_channel;
class protection_domain;
struct rc;
template <class Transport>
class queue_pair;
struct message_channel_options;
struct message_failure;

namespace detail {
class message_core;
class operation_table;
class slot_reservation;
/// Destroys the queue pair, then the memory; leaks the memory if the queue pair stays.
void destroy(message_core& core) noexcept;
using message_core_owner = sole_owner<message_core>;
}  // namespace detail

/// A connected stream of messages, which arrive whole, once and in order.
///
/// Sending and receiving neither allocate nor lock nor make system calls. The channel owns all
/// memory, so a deadline that passes leaves every request posted and the connection intact.
/// Destroying the channel destroys its queue pair without waiting; drain() first if all messages
/// must arrive.
/// Threads: one thread at a time; the channel may move from thread to thread. Received messages and
/// buffers are independent of it.
class [[nodiscard]] message_channel {
 public:
  /// The operations of a channel on a completion_hub in addition to the depths of its queues.
  static constexpr std::uint32_t own_operations = 6;

  /// Connects to the program that listens at `address`, such as `host:7471` or
  /// `[2001:db8::1]:7471`.
  ///
  /// Opens the device like open_device(), and connects over TCP; on iWARP through the connection
  /// manager, which chooses the device by the route. While no program listens at `address`, tries
  /// again. The whole call is limited to 5 s. The port is 7471 if `address` has none.
  ///
  /// Errors: `invalid_argument` for a malformed address; ECONNREFUSED if no program listens there;
  /// those of open_device(), prepare() and prepared_message_channel::connect(). All name the
  /// address. Blocks and allocates.
  [[nodiscard]] static result<message_channel> connect(std::string_view address);
  /// Connects to the program that listens at `address`, until `until`.
  [[nodiscard]] static result<message_channel> connect(std::string_view address,
                                                       const message_channel_options& options,
                                                       deadline until);
  /// Listens at `address`, such as `:7471`, accepts one peer and stops listening.
  ///
  /// The peer calls connect(). Without a host, listens at all addresses. Waits for a peer without a
  /// limit, then negotiates with it for at most 5 s. Errors: those of connect(); EADDRINUSE if
  /// another program listens there.
  [[nodiscard]] static result<message_channel> listen_once(std::string_view address);
  /// Listens at `address` and accepts one peer, until `until`.
  [[nodiscard]] static result<message_channel> listen_once(std::string_view address,
                                                           const message_channel_options& options,
                                                           deadline until);

  /// Creates everything but the connection. Allocates; may block in the kernel.
  ///
  /// Errors: `invalid_argument` for options out of range; those of buffer_pool::create(),
  /// context::create_cq() and protection_domain::create_qp().
  [[nodiscard]] static result<prepared_message_channel> prepare(const protection_domain& domain);
  /// Creates everything but the connection, with options.
  [[nodiscard]] static result<prepared_message_channel> prepare(
      const protection_domain& domain, const message_channel_options& options);
  /// Creates everything but the connection, with receive buffers from `receives`.
  ///
  /// Several channels may share the pool; buffers that one of them holds are unavailable to the
  /// others. Errors: also `invalid_argument` for a pool of another protection domain, without
  /// local_write, or with buffers that are shorter than a message.
  [[nodiscard]] static result<prepared_message_channel> prepare(const protection_domain& domain,
                                                                const buffer_pool& receives);
  /// Creates everything but the connection, with receive buffers from `receives` and with options.
  [[nodiscard]] static result<prepared_message_channel> prepare(
      const protection_domain& domain, const buffer_pool& receives,
      const message_channel_options& options);

  /// Creates everything but the connection, on the completion queue of `hub`.
  ///
  /// One thread serves many channels with one completion_hub, which delivers the completions of all
  /// of them. The channel reserves `max_send_wr + max_recv_wr + own_operations` operations.
  /// If the hub has a completion channel, credits of the peer wake the thread. The channel then
  /// posts 4 receives more than `max_recv_wr`, except on iWARP.
  /// Errors: also `invalid_argument` if the hub has no room.
  [[nodiscard]] static result<prepared_message_channel> prepare(
      const protection_domain& domain, const completion_hub& hub,
      const message_channel_options& options);
  /// Creates everything but the connection, on the completion queue of `hub`, with receive buffers
  /// from `receives`.
  [[nodiscard]] static result<prepared_message_channel> prepare(
      const protection_domain& domain, const completion_hub& hub, const buffer_pool& receives,
      const message_channel_options& options);

  /// Sends a copy of `bytes` if there is room; polls once if there is none.
  [[nodiscard]] send_result try_send(std::span<const std::byte> bytes);
  /// Sends the bytes of `memory` that `part` names, without a copy, if there is room.
  ///
  /// The buffer returns to its pool when the device no longer accesses it. If the message is
  /// refused, the caller keeps the buffer.
  [[nodiscard]] send_result try_send(buffer&& memory, const buffer_slice& part = {});
  /// Sends a copy of `bytes`; waits for room until `until`.
  ///
  /// Room appears when the peer receives: two sides that only send block each other.
  [[nodiscard]] send_result send(std::span<const std::byte> bytes,
                                 deadline until = deadline::never());
  /// Sends the bytes of `memory` that `part` names, without a copy; waits for room until `until`.
  [[nodiscard]] send_result send(buffer&& memory, const buffer_slice& part = {},
                                 deadline until = deadline::never());

  /// Returns a buffer of at least message_bytes(), or nullopt if none is free. Polls once if none
  /// is free at first.
  [[nodiscard]] std::optional<buffer> take_buffer();
  /// Returns a buffer of at least message_bytes(), or nullopt if none becomes free until `until`.
  [[nodiscard]] std::optional<buffer> take_buffer(deadline until);

  /// Returns the next message, or nullopt if none has arrived. Polls once if none has arrived at
  /// first.
  ///
  /// Messages that arrived before a failure can still be received after it.
  [[nodiscard]] std::optional<received_message> try_receive();
  /// Returns whether try_receive() has a message without polling. Never polls.
  [[nodiscard]] bool has_message() const;
  /// Waits for the next message until `until` passes or the channel fails.
  ///
  /// A peer that has died or is unreachable is not detected while this side sends nothing: without
  /// a deadline, the call then never ends.
  [[nodiscard]] receive_result receive(deadline until = deadline::never());

  /// Polls once, posts receives and grants credits. Never blocks.
  ///
  /// Calls that wait do so continuously. A program that neither sends nor receives for a long time
  /// calls progress() occasionally, or that of the completion_hub.
  void progress();
  /// Returns whether all sent messages are known to be delivered; polls once. If they are not,
  /// their delivery causes a completion, which wakes a program that sleeps.
  [[nodiscard]] bool try_drain();
  /// Waits until all sent messages are known to be delivered. Returns false if `until` passes first
  /// or the channel fails.
  [[nodiscard]] bool drain(deadline until = deadline::never());
  /// Ends the channel: moves its queue pair to the error state and waits for the flush.
  ///
  /// Messages that were not known to be delivered are unknown(). Blocks for at most 5 s.
  void flush();

  /// Sets the tag by which completion_hub::next_ready() returns this channel, the first time at
  /// once. `nullopt` removes the tag. The tag moves with the channel. Has no effect without a hub.
  void set_tag(std::optional<std::uint64_t> tag);

  /// Returns the descriptor for poll(2) and epoll(7), like completion_hub::fd().
  ///
  /// Precondition of this function, next_deadline(), arm() and wait(): the channel was prepared
  /// with `.events = true`, or on a completion_hub with a completion channel. They then apply to
  /// the hub.
  [[nodiscard]] int fd() const;
  /// Returns when progress() must be called even if fd() is not readable.
  [[nodiscard]] deadline next_deadline() const;
  /// Requests an event for the next completion. Returns true if nothing is left to do, so that the
  /// caller may wait for fd() until next_deadline(). See completion_hub::arm().
  ///
  /// A program may sleep after try_send(), take_buffer(), try_receive() or try_drain() has failed.
  /// An event after which the call can succeed wakes the program.
  [[nodiscard]] result<bool> arm();
  /// Sleeps until the channel may have made progress, or until `until`. See completion_hub::wait().
  [[nodiscard]] result<std::size_t> wait(deadline until);

  /// Returns why the channel ended; nullptr while it works.
  ///
  /// An ended channel refuses messages, and receive() returns those that had arrived.
  [[nodiscard]] const message_failure* failure() const;
  /// Explains failure(): peer, state of the device, usual causes, and the unknown() messages.
  ///
  /// Queries the device. Precondition: failure() != nullptr. Allocates.
  [[nodiscard]] error describe() const;

  /// Returns the number of messages accepted by send() and try_send().
  [[nodiscard]] std::uint64_t sent() const;
  /// Returns how many of them are known to be delivered: messages 1 to delivered().
  ///
  /// On iWARP delivered means that the connection has accepted them, not that they are in the
  /// memory of the peer.
  [[nodiscard]] std::uint64_t delivered() const;
  /// Returns the number of messages that arrived here.
  [[nodiscard]] std::uint64_t received() const;
  /// Returns the messages that may or may not have been delivered: those after delivered().
  ///
  /// On a channel that works, these are the messages in flight. After a failure, completions that
  /// were not polled yet may still make the range smaller; it is final after flush().
  [[nodiscard]] message_range unknown() const {
    return {.first = delivered() + 1, .count = sent() - delivered()};
  }
  /// Returns statistics.
  [[nodiscard]] const message_counters& counters() const;

  /// Returns the length of the longest message, as negotiated.
  [[nodiscard]] std::uint32_t message_bytes() const;
  /// Returns the length of the longest message that is sent inline; 0 if none is.
  [[nodiscard]] std::uint32_t inline_bytes() const;
  /// Returns true if messages wait for credits, as negotiated.
  [[nodiscard]] bool uses_credits() const;
  /// Returns the pool of receive buffers, for statistics.
  [[nodiscard]] const buffer_pool& receive_pool() const;
  /// Returns the queue pair, for queries; nullptr if it was destroyed.
  [[nodiscard]] const queue_pair<rc>* qp() const;
  /// Returns the connection of the connection manager, as long as the channel; nullptr without one.
  ///
  /// send(), receive(), take_buffer() and drain() look every 100 ms whether the peer has
  /// disconnected, and then end the channel. The others do not: if the program sleeps in wait(), it
  /// can also wait for cm::connection::fd(), and then call receive().
  [[nodiscard]] cm::connection* connection();

 private:
  friend class prepared_message_channel;
  friend class async::detail::message_channel_state;
  // Without a hub, the channel has its own completion queue; without a pool, its own receives.
  [[nodiscard]] static result<prepared_message_channel> prepare_on(
      const protection_domain& domain, const std::shared_ptr<detail::operation_table>& hub,
      const buffer_pool* pool, const message_channel_options& options);
  [[nodiscard]] static result<prepared_message_channel> prepare_with(
      const protection_domain& domain, detail::slot_reservation places, const buffer_pool& receives,
      const message_channel_options& settled);
  [[nodiscard]] completion_hub hub() const;
  explicit message_channel(detail::message_core_owner core) noexcept : core_(std::move(core)) {}
  [[nodiscard]] detail::message_core& core() const;

  detail::message_core_owner core_;
};

/// Describes the channel:
/// `message channel on queue pair 0x11 on soft0, 12 sent, 12 delivered, …`.
[[nodiscard]] std::string to_string(const message_channel& of);

}  // namespace verbena::inline VERBENA_ABI
