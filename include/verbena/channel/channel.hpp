// SPDX-License-Identifier: MIT
// A reliable connection that cannot lose, free or race a buffer: the adapter's hold on memory ends
// before the program can get at it again. Three levels, from simple to free:
//
//   blocking   channel.send(source(outbox), until)       the call returns when it is over
//   scoped     channel.scope(until, [&](auto& s) { … })  what is posted inside is over at the end
//   unpolled   channel.post_send(std::move(buffer))      the buffer goes in, and comes back
//
// No operation allocates, locks or calls the system. A time limit is always said: a deadline that
// passes moves the queue pair to its error state, which makes the adapter let go of the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/negotiation.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/channel_failure.hpp"
#include "verbena/channel/channel_options.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/operation_scope.hpp"
#include "verbena/channel/pending_operation.hpp"
#include "verbena/channel/reconnection.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/memory/buffer.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI::cm {
class connection_request;
class connector;
struct connection_options;
}  // namespace verbena::inline VERBENA_ABI::cm

namespace verbena::inline VERBENA_ABI {

class channel;

/// Posts the receives that the peer's first messages need, to a channel that takes them already
/// while the peer cannot send yet. Blocking operations and scopes have to wait until it is
/// connected.
using channel_preparation = std::function<result<void>(channel&)>;

/// A connected channel: prepared_channel makes it. Dropping it destroys its queue pair, unless
/// pending operations still need it; nothing waits, and buffers go back when the adapter is done
/// with them.
///
/// Memory of another protection domain, too many pieces, more bytes than the peer's region has and
/// a full queue are refused, as a result that says so.
/// Threads: a channel, its scopes and its handles are used by one thread at a time, together; they
/// may move from thread to thread.
class [[nodiscard]] channel {
 public:
  /// Takes over the channel of `other`, which must not be used afterwards.
  channel(channel&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  /// Drops its own and takes over that of `other`.
  channel& operator=(channel&& other) noexcept {
    if (this != &other) {
      detail::channel_core::release(core_);
      core_ = std::exchange(other.core_, nullptr);
    }
    return *this;
  }
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;
  ~channel() { detail::channel_core::release(core_); }

  /// Sends a message for the peer's next receive, and waits until the peer's adapter has it.
  ///
  /// *Contract.* What `data` names is neither written nor unregistered until the call returns.
  [[nodiscard]] operation_result send(const source& data, deadline until,
                                      place_of_post posted = std::source_location::current());
  /// The same for all that a message can be made of, and with options.
  ///
  /// *Contract.* As above.
  [[nodiscard]] operation_result send(
      const outgoing& data, deadline until, const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Receives one message and waits for it. byte_length() of the result is its length.
  ///
  /// *Contract.* What `into` names is neither read, written nor unregistered until the call
  /// returns.
  [[nodiscard]] operation_result receive(
      const sink& into, deadline until,
      std::source_location posted = std::source_location::current());
  /// The same, scattered over several pieces, filled one after the other.
  ///
  /// *Contract.* As above.
  [[nodiscard]] operation_result receive(
      std::span<const sink> into, deadline until,
      std::source_location posted = std::source_location::current());
  /// Writes to the beginning of `to`; the peer's program does not notice.
  ///
  /// *Contract.* As send().
  [[nodiscard]] operation_result write(const source& data, const remote_region& to, deadline until,
                                       place_of_post posted = std::source_location::current());
  /// The same for all that a write can be made of, and with options.
  ///
  /// *Contract.* As send().
  [[nodiscard]] operation_result write(
      const outgoing& data, const remote_region& to, deadline until,
      const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Reads the beginning of `from`: as many bytes as `into` has.
  ///
  /// *Contract.* As receive().
  [[nodiscard]] operation_result read(
      const sink& into, const remote_region& from, deadline until,
      std::source_location posted = std::source_location::current());
  /// The same, scattered over several pieces.
  ///
  /// *Contract.* As receive().
  [[nodiscard]] operation_result read(
      std::span<const sink> into, const remote_region& from, deadline until,
      std::source_location posted = std::source_location::current());
  /// Compares the 8 bytes at the beginning of `target`: if they are `operands.expected`, they
  /// become `operands.desired`. What they were is then in `before`, in host order.
  ///
  /// *Contract.* As receive(), for `before`.
  [[nodiscard]] operation_result compare_and_swap(
      const sink& before, const remote_region& target, compare_and_swap_operands operands,
      deadline until, std::source_location posted = std::source_location::current());
  /// Adds to the 8 bytes at the beginning of `target`. What they were is then in `before`.
  ///
  /// *Contract.* As receive(), for `before`.
  [[nodiscard]] operation_result fetch_and_add(
      const sink& before, const remote_region& target, std::uint64_t addend, deadline until,
      std::source_location posted = std::source_location::current());

  /// Calls `body` with a scope; operations posted in it are over when scope() returns, by whatever
  /// way `body` ends. It waits until `until`; then the channel is flushed. The result has what
  /// `body` returned (a value, a result<T> or nothing), and every failure that `body` has not
  /// looked at: operation_scope.hpp.
  template <std::invocable<operation_scope&> Body>
  auto scope(deadline until, Body&& body) {
    operation_scope opened(core(), until, operation_scope::policy::collect);
    using returned = std::invoke_result_t<Body, operation_scope&>;
    if constexpr (std::is_void_v<returned>) {
      std::invoke(std::forward<Body>(body), opened);
      return scope_result<void>(result<void>{}, opened.finish());
    } else {
      result<detail::value_of_body<returned>> outcome(
          std::invoke(std::forward<Body>(body), opened));
      return scope_result<detail::value_of_body<returned>>(std::move(outcome), opened.finish());
    }
  }
  /// As scope(), for a body that looks at each operation itself: returns what `body` returns. When
  /// it succeeds and leaves an operation that nobody looked at, the program stops, after the
  /// operations are over, with the place of that post. When it fails, by a result with an error or
  /// an exception, they are over when it leaves, and their failures are added to the error's text.
  template <std::invocable<operation_scope&> Body>
  auto manual_scope(deadline until, Body&& body) -> std::invoke_result_t<Body, operation_scope&> {
    operation_scope opened(core(), until, operation_scope::policy::demand);
    using returned = std::invoke_result_t<Body, operation_scope&>;
    if constexpr (std::is_void_v<returned>) {
      std::invoke(std::forward<Body>(body), opened);
      opened.finish_demanding();
    } else {
      returned outcome = std::invoke(std::forward<Body>(body), opened);
      if constexpr (detail::is_result<returned>) {
        if (!outcome) {
          auto failures = opened.finish();
          return detail::with_failures(std::move(outcome).error(), failures);
        }
      }
      opened.finish_demanding();
      return outcome;
    }
  }

  /// Posts a message of what `part` says of `memory`. The channel has the buffer until the message
  /// is over; the handle gives it back. Never blocks.
  ///
  /// *Contract.* Nothing but the buffer: copies of its bytes() are not used until it is back.
  [[nodiscard]] pending_operation post_send(
      buffer&& memory, const buffer_part& part = {}, const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Posts a receive for one message.
  ///
  /// *Contract.* As above.
  [[nodiscard]] pending_operation post_receive(
      buffer&& memory, const buffer_part& part = {},
      std::source_location posted = std::source_location::current());
  /// Posts a write to the beginning of `to`.
  ///
  /// *Contract.* As above.
  [[nodiscard]] pending_operation post_write(
      buffer&& memory, const remote_region& to, const buffer_part& part = {},
      const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Posts a read of the beginning of `from`.
  ///
  /// *Contract.* As above.
  [[nodiscard]] pending_operation post_read(
      buffer&& memory, const remote_region& from, const buffer_part& part = {},
      std::source_location posted = std::source_location::current());
  /// Posts an atomic comparison; what the 8 bytes were is then at the beginning of the buffer.
  ///
  /// *Contract.* As above.
  [[nodiscard]] pending_operation post_compare_and_swap(
      buffer&& before, const remote_region& target, compare_and_swap_operands operands,
      std::source_location posted = std::source_location::current());
  /// Posts an atomic addition; what the 8 bytes were is then at the beginning of the buffer.
  ///
  /// *Contract.* As above.
  [[nodiscard]] pending_operation post_fetch_and_add(
      buffer&& before, const remote_region& target, std::uint64_t addend,
      std::source_location posted = std::source_location::current());

  /// Polls once: what has completed is delivered to its handle, also those of other channels of the
  /// same completion_hub. Never blocks.
  void progress() { core().progress(); }
  /// Operations in flight.
  [[nodiscard]] std::uint32_t in_flight() const { return core().in_flight(); }
  /// Sends, writes, reads and atomics that could be posted now.
  [[nodiscard]] std::uint32_t free_sends() const { return core().free_sends(); }
  /// Receives that could be posted now.
  [[nodiscard]] std::uint32_t free_receives() const { return core().free_receives(); }
  /// Failures of operations whose handles were dropped before they ended.
  [[nodiscard]] std::uint64_t unseen_failures() const { return core().unseen_failures(); }
  /// The first of them; nullptr if there is none.
  [[nodiscard]] const operation_result* first_unseen_failure() const {
    return core().first_unseen_failure();
  }

  /// What the device says that the options are: of what was not given, what was chosen; depths and
  /// pieces as granted, read depth and MTU as agreed with the peer. May block in the kernel.
  /// Errors: the errno of ibv_query_qp(3); ENOTCONN when the channel lost its queue pair.
  [[nodiscard]] result<channel_options> query() const;
  /// The failure of an operation of this channel, with what only the channel knows: to which peer
  /// it was, what the device says, the usual causes. Asks the device. Precondition: !failed.ok().
  [[nodiscard]] error describe(const operation_result& failed) const;
  /// Ends what is in flight: moves the queue pair to its error state and waits until the adapter
  /// has let go of all memory. Every handle has then ended, and every buffer is back. Blocks for
  /// 5 s at most.
  void flush() { core().flush(); }

  /// Why the connection is of no more use, as far as operations that ended have shown it; nullptr
  /// if they have not. The first cause stays until reconnect().
  [[nodiscard]] const channel_failure* failure() const { return core().failure(); }
  /// The same in words, with what only the channel knows: to which peer it was, what the device
  /// says, whether the port is down now. Asks the device. Precondition: failure() != nullptr.
  [[nodiscard]] error describe_failure() const;

  /// Gives the channel a new connection to the peer at the other end of `peer`, who calls this too,
  /// or prepared_channel::connect() if it was started anew. What is in flight is flushed first, the
  /// old queue pair is destroyed, and its completions are taken: each handle of the old connection
  /// has its result, and none of the new connection can be taken for it. The protection domain, its
  /// regions and buffers, the completion queue or hub and the options stay; sequence numbers, the
  /// entry of the GID table and the path MTU are chosen anew, unless the options gave the latter
  /// two. A GID that the options gave by its index is looked for where it is now. A port that is
  /// down may come back within `options.port_patience`.
  ///
  /// Errors: those of prepared_channel::connect() and of prepare_again(). The channel is then
  /// without a connection, posts are refused as refusal::not_connected, and it can be tried again
  /// with a stream that was connected anew. Blocks and allocates.
  [[nodiscard]] result<reconnection> reconnect(bringup::stream& peer, deadline until,
                                               const bringup::negotiation_options& options = {});
  /// The same by the connection manager, as prepared_channel::connect() does it. The peer answers
  /// by reconnect_by(), or by prepared_channel::accept() if it was started anew. The two sides know
  /// each other again if neither had private data of its own in `options`, now and when they were
  /// connected first: continuations travel there. `peer` is on the device and port of the channel.
  ///
  /// Errors: those of cm::connector::connect() and of protection_domain::create_queue_pair(). The
  /// channel has then no connection, what `prepare` posted is lost, and reconnecting may be tried
  /// again with another connector.
  [[nodiscard]] result<reconnection> reconnect(cm::connector& peer,
                                               const cm::connection_options& options,
                                               deadline until,
                                               const channel_preparation& prepare = {});
  /// Grants a request of the peer that connects again: the same for
  /// cm::connection_request::accept().
  [[nodiscard]] result<reconnection> reconnect_by(cm::connection_request&& request,
                                                  const cm::connection_options& options,
                                                  deadline until,
                                                  const channel_preparation& prepare = {});
  /// The first half of that for who exchanges endpoints by other means; handshake() of what comes
  /// back is the second. Blocks for 5 s at most, and allocates.
  ///
  /// Errors: those of protection_domain::create_queue_pair(), as `unavailable` while the port is
  /// down; `unavailable`, too, when the port has no more the address that the options chose.
  [[nodiscard]] result<prepared_reconnection> prepare_again();

  /// The protection domain that its memory has to be of.
  [[nodiscard]] const protection_domain& domain() const { return core().domain(); }
  /// The queue pair, for what this class does not offer; nullptr if it was lost. What is posted to
  /// it there must not be signaled: the channel polls its completions.
  [[nodiscard]] queue_pair<rc>* queue() {
    auto& queue = core().queue();
    return queue ? &*queue : nullptr;
  }
  /// The connection that it was made from, which lives as long as the channel; nullptr if it was
  /// connected without a connection manager. When its is_disconnected() says so, flush() ends what
  /// is in flight.
  [[nodiscard]] cm::connection* connection() { return core().connection(); }

 private:
  friend class prepared_channel;
  explicit channel(detail::channel_core* core) noexcept : core_(core) {}
  [[nodiscard]] detail::channel_core& core() const {
    VERBENA_ASSERT(core_ != nullptr, "a moved-from channel must not be used");
    return *core_;
  }
  [[nodiscard]] operation_result run(const detail::operation_description& what, deadline until,
                                     std::source_location posted);
  // Lets the program post while the channel has the queue pair, and takes that back.
  [[nodiscard]] result<void> lend(queue_pair<rc>& to_be_connected,
                                  const channel_preparation& prepare);
  // What was lent is connected; what the peer said of itself.
  std::optional<continuation> take_over(cm::connection&& connected);
  template <class Bring>
  [[nodiscard]] result<reconnection> reconnect_managed(const cm::connection_options& options,
                                                       const channel_preparation& prepare,
                                                       Bring&& bring_up);

  detail::channel_core* core_;  // counted: hold() and release()
};

}  // namespace verbena::inline VERBENA_ABI
