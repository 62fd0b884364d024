// SPDX-License-Identifier: MIT
// A reliable connection that holds every buffer while the device may access it. Three levels:
//
//   blocking   channel.send(source(outbox))          returns when the operation has completed
//   scoped     channel.scope([&](auto& scope) { … }) operations complete before scope() returns
//   owned      channel.post_send(std::move(buffer))  the operation returns the buffer
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/function_ref.hpp"
#include "verbena/base/owned_function.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/negotiation.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/abort_at.hpp"
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
namespace async::detail {
class channel_state;
}
namespace net::detail {
struct channel_access;
}

/// Posts the receives for the first messages of the peer. Is called before the channel is
/// connected, when the channel accepts receives but no blocking operations and no scopes. Refers to
/// a callable object, which must outlive the call that it is passed to.
using channel_preparation = function_ref<result<void>(channel&)>;
/// A channel_preparation that is kept, for operations in steps.
using kept_channel_preparation = owned_function<result<void>(channel&)>;

/// A connected channel, created by prepared_channel.
///
/// The destructor destroys the queue pair, unless pending operations still need it. It does not
/// wait; buffers return to their pools when the device no longer accesses them.
///
/// A post is refused, as a value, if the queue is full, if memory belongs to another protection
/// domain, if there are more slices than the queue pair takes, or if the operation exceeds the
/// remote region.
///
/// No operation allocates, locks or makes a system call, except the first one of a channel with
/// net::connect_mode::on_first_use: it connects the channel, and so may block and allocate, even if
/// its documentation says that it never blocks. A blocking call polls until its operation
/// has completed. If the peer does not respond, a send, write, read or atomic operation fails when
/// the retries of the device are exhausted. A send also waits until the peer posts a receive; the
/// wait has no limit unless `rnr_retry_count` sets one. A receive completes when a message arrives
/// or the connection fails. abort_at limits the wait by ending the connection.
///
/// Threads: one thread at a time, for the channel with its scopes and operations together; not
/// always the same thread.
class [[nodiscard]] channel {
 public:
  /// Takes the channel of `other`, which must not be used afterwards.
  channel(channel&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  /// Destroys its own channel and takes that of `other`, which must not be used afterwards.
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

  /// Sends a message and waits until the peer's device has it.
  ///
  /// *Contract.* The memory of `data` is neither written nor deregistered before the call returns.
  [[nodiscard]] operation_result send(const source& data, abort_at limit = {},
                                      place_of_post posted = std::source_location::current());
  /// Sends a message from several slices, from inline data, or with options.
  ///
  /// *Contract.* The memory of `data` is neither written nor deregistered before the call returns.
  [[nodiscard]] operation_result send(
      const outgoing& data, abort_at limit = {}, const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Sends a message with options, and waits until the peer's device has it.
  ///
  /// *Contract.* The memory of `data` is neither written nor deregistered before the call returns.
  [[nodiscard]] operation_result send(
      const outgoing& data, const operation_options& options,
      std::source_location posted = std::source_location::current()) {
    return send(data, abort_at(), options, posted);
  }
  /// Receives one message and waits for it. `byte_length()` of the result is the length; 0 if a
  /// write with immediate data of the peer consumed the receive.
  ///
  /// *Contract.* The memory of `into` is not read, written or deregistered before the call returns.
  [[nodiscard]] operation_result receive(
      const sink& into, abort_at limit = {},
      std::source_location posted = std::source_location::current());
  /// Receives one message into several slices, which are filled in order.
  ///
  /// *Contract.* The memory of `into` is not read, written or deregistered before the call returns.
  [[nodiscard]] operation_result receive(
      std::span<const sink> into, abort_at limit = {},
      std::source_location posted = std::source_location::current());
  /// Writes to the beginning of `to`, unnoticed by the peer's program.
  ///
  /// *Contract.* The memory of `data` is neither written nor deregistered before the call returns.
  [[nodiscard]] operation_result write(const source& data, const remote_region& to,
                                       abort_at limit = {},
                                       place_of_post posted = std::source_location::current());
  /// Writes from several slices, from inline data, or with options.
  ///
  /// *Contract.* The memory of `data` is neither written nor deregistered before the call returns.
  [[nodiscard]] operation_result write(
      const outgoing& data, const remote_region& to, abort_at limit = {},
      const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Writes with options.
  ///
  /// *Contract.* The memory of `data` is neither written nor deregistered before the call returns.
  [[nodiscard]] operation_result write(
      const outgoing& data, const remote_region& to, const operation_options& options,
      std::source_location posted = std::source_location::current()) {
    return write(data, to, abort_at(), options, posted);
  }
  /// Reads the beginning of `from`: as many bytes as `into` has.
  ///
  /// *Contract.* The memory of `into` is not read, written or deregistered before the call returns.
  [[nodiscard]] operation_result read(
      const sink& into, const remote_region& from, abort_at limit = {},
      std::source_location posted = std::source_location::current());
  /// Reads into several slices, which are filled in order.
  ///
  /// *Contract.* The memory of `into` is not read, written or deregistered before the call returns.
  [[nodiscard]] operation_result read(
      std::span<const sink> into, const remote_region& from, abort_at limit = {},
      std::source_location posted = std::source_location::current());
  /// Replaces the first 8 bytes of `target` by `operands.desired` if they are `operands.expected`.
  /// Stores their previous value in `before`, in host byte order.
  ///
  /// *Contract.* The memory of `before` is not read, written or deregistered before the call
  /// returns.
  [[nodiscard]] operation_result compare_and_swap(
      const sink& before, const remote_region& target, compare_and_swap_operands operands,
      abort_at limit = {}, std::source_location posted = std::source_location::current());
  /// Adds to the first 8 bytes of `target`. Stores their previous value in `before`, in host byte
  /// order.
  ///
  /// *Contract.* The memory of `before` is not read, written or deregistered before the call
  /// returns.
  [[nodiscard]] operation_result fetch_and_add(
      const sink& before, const remote_region& target, std::uint64_t addend, abort_at limit = {},
      std::source_location posted = std::source_location::current());

  /// Calls `body` with a scope; its operations have completed when scope() returns.
  ///
  /// scope() waits for them even if `body` fails or throws. Without a limit, the wait for a receive
  /// has no end if the peer sends nothing. The result has the value of `body` (a value, a result<T>
  /// or void), and every failure that `body` did not inspect. If `body` throws, these failures are
  /// logged as warnings, and the exception continues. `body` is a plain function: it is refused if
  /// it returns a coroutine or a scoped_operation, which would end after the scope.
  template <detail::scope_body Body>
  auto scope(abort_at limit, Body&& body) {
    operation_scope opened(core(), limit, operation_scope::policy::collect);
    using returned = std::invoke_result_t<Body, operation_scope&>;
    if constexpr (std::is_void_v<returned>) {
      std::forward<Body>(body)(opened);
      return scope_result<void>(opened.finish(), result<void>{});
    } else {
      result<detail::value_of_body<returned>> outcome(std::forward<Body>(body)(opened));
      return scope_result<detail::value_of_body<returned>>(opened.finish(), std::move(outcome));
    }
  }
  /// Calls `body` with a scope that waits until all operations have completed.
  template <detail::scope_body Body>
  auto scope(Body&& body) {
    return scope(abort_at(), std::forward<Body>(body));
  }
  /// Calls `body`, which inspects every operation itself, and returns the value of `body`.
  ///
  /// If `body` succeeds and has not inspected an operation, the program stops with the place of
  /// that post, after the operations have completed. If `body` returns a result with an error,
  /// manual_scope() waits for the operations and appends their failures to the text of the error.
  /// If `body` throws, manual_scope() waits for them as scope() does, logs their failures as
  /// warnings, and the exception continues.
  template <detail::scope_body Body>
  auto manual_scope(abort_at limit, Body&& body) -> std::invoke_result_t<Body, operation_scope&> {
    operation_scope opened(core(), limit, operation_scope::policy::demand);
    using returned = std::invoke_result_t<Body, operation_scope&>;
    if constexpr (std::is_void_v<returned>) {
      std::forward<Body>(body)(opened);
      opened.finish_demanding();
    } else {
      returned outcome = std::forward<Body>(body)(opened);
      if constexpr (detail::is_result<returned>) {
        if (!outcome.has_value()) {
          auto failures = opened.finish();
          return detail::with_failures(std::move(outcome).error(), failures);
        }
      }
      opened.finish_demanding();
      return outcome;
    }
  }
  /// Calls `body` with a manual scope that waits until all operations have completed.
  template <detail::scope_body Body>
  auto manual_scope(Body&& body) -> std::invoke_result_t<Body, operation_scope&> {
    return manual_scope(abort_at(), std::forward<Body>(body));
  }

  /// Posts a send of the bytes that `part` selects. Never blocks.
  ///
  /// The operation owns the buffer while the device may access it; take_buffer() of the returned
  /// operation returns the buffer, even if the post was refused.
  ///
  /// *Contract.* The program must not use copies of the span `memory.bytes()` until take_buffer()
  /// has returned the buffer.
  [[nodiscard]] pending_operation post_send(
      buffer&& memory, const buffer_slice& part = {}, const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Posts a receive for one message. Ownership and contract: see post_send().
  [[nodiscard]] pending_operation post_receive(
      buffer&& memory, const buffer_slice& part = {},
      std::source_location posted = std::source_location::current());
  /// Posts a write to the beginning of `to`. Ownership and contract: see post_send().
  [[nodiscard]] pending_operation post_write(
      buffer&& memory, const remote_region& to, const buffer_slice& part = {},
      const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Posts a read of the beginning of `from`. Ownership and contract: see post_send().
  [[nodiscard]] pending_operation post_read(
      buffer&& memory, const remote_region& from, const buffer_slice& part = {},
      std::source_location posted = std::source_location::current());
  /// Posts a compare-and-swap. The old value of the 8 bytes is stored at the beginning of the
  /// buffer. Ownership and contract: see post_send().
  [[nodiscard]] pending_operation post_compare_and_swap(
      buffer&& before, const remote_region& target, compare_and_swap_operands operands,
      std::source_location posted = std::source_location::current());
  /// Posts a fetch-and-add. The old value of the 8 bytes is stored at the beginning of the buffer.
  /// Ownership and contract: see post_send().
  [[nodiscard]] pending_operation post_fetch_and_add(
      buffer&& before, const remote_region& target, std::uint64_t addend,
      std::source_location posted = std::source_location::current());

  /// Starts a send. next_completed(), or completion_hub::next_completed(), returns its result with
  /// `tag`, so an event loop needs no object per operation. Returns nullopt, or the refusal;
  /// next_completed() does not return refused operations. An operation that ended occupies its
  /// place until next_completed() returns it; without a place the refusal is
  /// refusal::not_collected. The first operation of a channel and of a hub allocates.
  ///
  /// *Contract.* Until next_completed() has returned the operation, the memory of sources is not
  /// written, and that of sinks is neither read nor written; both stay registered. Inline data is
  /// copied.
  [[nodiscard]] std::optional<operation_result> start_send(
      std::uint64_t tag, const outgoing& data, const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Starts a receive of one message into several slices, which are filled in order. Contract: see
  /// start_send().
  [[nodiscard]] std::optional<operation_result> start_receive(
      std::uint64_t tag, std::span<const sink> into,
      std::source_location posted = std::source_location::current());
  /// Starts a write to the beginning of `to`. Contract: see start_send().
  [[nodiscard]] std::optional<operation_result> start_write(
      std::uint64_t tag, const outgoing& data, const remote_region& to,
      const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Starts a read of the beginning of `from` into several slices, which are filled in order.
  /// Contract: see start_send().
  [[nodiscard]] std::optional<operation_result> start_read(
      std::uint64_t tag, std::span<const sink> into, const remote_region& from,
      std::source_location posted = std::source_location::current());
  /// Starts a compare-and-swap. The old value of the 8 bytes is stored in `before`, in host byte
  /// order. Contract: see start_send().
  [[nodiscard]] std::optional<operation_result> start_compare_and_swap(
      std::uint64_t tag, const sink& before, const remote_region& target,
      compare_and_swap_operands operands,
      std::source_location posted = std::source_location::current());
  /// Starts a fetch-and-add. The old value of the 8 bytes is stored in `before`, in host byte
  /// order. Contract: see start_send().
  [[nodiscard]] std::optional<operation_result> start_fetch_and_add(
      std::uint64_t tag, const sink& before, const remote_region& target, std::uint64_t addend,
      std::source_location posted = std::source_location::current());

  /// Polls once and delivers completions to their operations. Never blocks.
  ///
  /// On a completion_hub it also delivers the completions of the other channels.
  void progress() { core().progress(); }
  /// Returns the number of operations in flight.
  [[nodiscard]] std::uint32_t in_flight() const { return core().in_flight(); }
  /// Returns how many sends, writes, reads and atomics can be posted now.
  [[nodiscard]] std::uint32_t free_sends() const { return core().free_sends(); }
  /// Returns how many receives can be posted now.
  [[nodiscard]] std::uint32_t free_receives() const { return core().free_receives(); }
  /// Returns how many operations failed after their `pending_operation` was destroyed.
  [[nodiscard]] std::uint64_t unseen_failures() const { return core().unseen_failures(); }
  /// Returns the first of the unseen failures; nullptr if there is none.
  [[nodiscard]] const operation_result* first_unseen_failure() const {
    return core().first_unseen_failure();
  }

  /// Returns the effective options, including granted capacities and negotiated values. May block
  /// in the kernel.
  ///
  /// Errors: the errno of ibv_query_qp(3); ENOTCONN if the channel has no queue pair.
  [[nodiscard]] result<channel_options> query() const;
  /// Explains a failed operation of this channel: peer, state of the device, usual causes.
  ///
  /// Queries the device. Precondition: the operation failed.
  [[nodiscard]] error describe(const operation_result& failed) const;
  /// Ends the connection: moves the queue pair to the error state and waits for the flush.
  ///
  /// Afterwards every operation has a result, and every buffer is released. If completions are
  /// missing after 5 s, the queue pair is destroyed. Blocks for at most 5 s.
  void flush() { core().flush(); }

  /// Returns why the connection ended, or nullptr if no failure was detected yet. The first cause
  /// stays until reconnect(). Until then, posts return refusal::not_connected.
  [[nodiscard]] const channel_failure* failure() const { return core().failure(); }
  /// Explains failure(): peer, state of the device, and whether the port is down now.
  ///
  /// Queries the device. Precondition: failure() != nullptr.
  [[nodiscard]] error describe_failure() const;

  /// Replaces the queue pair by a new one that is connected over `peer`.
  ///
  /// The peer must also call reconnect(), or prepared_channel::connect() if its program was
  /// restarted. First, the operations in flight are flushed, and the old queue pair is destroyed.
  /// Then each operation of the old connection has its result, and a completion of the old
  /// connection is never taken for one of the new connection. The protection domain, regions,
  /// buffers, completion queue or hub and options are kept. Packet sequence numbers, GID index and
  /// path MTU are chosen again, unless the options set the latter two; a GID that the options set
  /// by index is searched at its present index. If the port is down, waits for it for at most
  /// `options.port_timeout` (default: 0).
  ///
  /// Errors: those of prepared_channel::connect() and of prepare_reconnect(). The channel then has
  /// no connection, and posts return refusal::not_connected; reconnect() can be called again with a
  /// new stream. If the first operation of the channel connects it, the channel is unchanged.
  /// Blocks and allocates.
  [[nodiscard]] result<reconnection> reconnect(bringup::stream& peer, deadline until,
                                               const bringup::negotiation_options& options = {});
  /// Reconnects with the connection manager, as the active side.
  ///
  /// Precondition: `peer` is on the device and port of the channel. The peer calls
  /// accept_reconnect(), or prepared_channel::accept() if its program was restarted. The resume
  /// tokens are sent as private data. Therefore reconnection::peer() of the other side is `unknown`
  /// if this side sets private data now, or set private data without the token when it first
  /// connected.
  ///
  /// Errors: `invalid_argument` if the first operation of the channel connects it, which leaves the
  /// channel unchanged. Those of cm::connector::connect() and protection_domain::create_qp(): the
  /// channel then has no connection, the receives that `prepare` posted have ended with the result
  /// `lost`, and reconnect() can be called again with another connector.
  [[nodiscard]] result<reconnection> reconnect(cm::connector& peer,
                                               const cm::connection_options& options,
                                               deadline until, channel_preparation prepare = {});
  /// Reconnects with the connection manager, as the passive side. Errors: those of
  /// cm::connection_request::accept(), and `invalid_argument` as that of reconnect().
  [[nodiscard]] result<reconnection> accept_reconnect(cm::connection_request&& request,
                                                      const cm::connection_options& options,
                                                      deadline until,
                                                      channel_preparation prepare = {});
  /// Prepares a new queue pair, for programs that exchange endpoints themselves.
  ///
  /// handshake() of the returned object connects it. Blocks for at most 5 s, and allocates.
  ///
  /// Errors: those of protection_domain::create_qp(), as `unavailable` while the port is down;
  /// `unavailable` also if the port no longer has the GID that the options chose;
  /// `invalid_argument` if the first operation of the channel connects it
  /// (net::connect_mode::on_first_use).
  [[nodiscard]] result<prepared_reconnection> prepare_reconnect();

  /// Returns the descriptor for poll(2) and epoll(7), like completion_hub::fd().
  ///
  /// Precondition of this function, arm() and wait(): the channel was created with `.events =
  /// true`, or on a completion_hub with a completion channel. They then apply to the hub.
  [[nodiscard]] int fd() const;
  /// Requests an event for the next completion. Returns true if none has arrived, so that the
  /// caller may wait for fd(); see completion_hub::arm().
  [[nodiscard]] result<bool> arm();
  /// Sleeps until operations have completed, or until `until`. Returns the number of completions;
  /// see completion_hub::wait().
  [[nodiscard]] result<std::size_t> wait(deadline until);
  /// Polls, and moves operations that were started with a tag and have ended to the front of `out`.
  /// Returns their number. On a completion_hub, these are the operations of all its channels; see
  /// completion_hub::next_completed(). Never blocks or allocates.
  [[nodiscard]] result<std::size_t> next_completed(std::span<completed_operation> out);

  /// Returns the protection domain that memory of operations must belong to.
  [[nodiscard]] const protection_domain& domain() const { return core().domain(); }
  /// Returns the queue pair, for features that this class lacks; nullptr if it was destroyed.
  ///
  /// Requests that are posted to it must not be signaled, since the channel polls the completions.
  /// Unsignaled requests complete if they fail. Therefore their `id` must be less than 2^30, such
  /// as the default 0: the channel uses no such id, and ignores the completion. The queue must have
  /// room for them, since free_sends() and free_receives() do not count them. A group does not
  /// close the idle connection of this queue pair.
  [[nodiscard]] queue_pair<rc>* qp() {
    auto& queue = core().qp();
    if (!queue) return nullptr;
    core().keep_queue();
    return &*queue;
  }
  /// Returns the queue pair for queries; nullptr if it was destroyed. Valid until the next call of
  /// a function of the channel, its hub or its group.
  [[nodiscard]] const queue_pair<rc>* qp() const {
    const auto& queue = core().qp();
    return queue ? &*queue : nullptr;
  }
  /// Returns the connection of the connection manager; nullptr without one.
  ///
  /// It lives as long as the channel. After its is_disconnected(), flush() ends the operations in
  /// flight. Calls that poll until an operation has ended (blocking calls, scopes, wait() of an
  /// operation) do both every 100 ms. Others, such as wait() of the channel, do not: if the program
  /// sleeps, wait for cm::connection::fd() too.
  [[nodiscard]] cm::connection* connection() { return core().connection(); }

 private:
  friend class prepared_channel;
  friend class async::detail::channel_state;
  friend struct net::detail::channel_access;
  explicit channel(detail::channel_core* core) noexcept : core_(core) {}
  [[nodiscard]] detail::channel_core& core() const {
    VERBENA_ASSERT(core_ != nullptr, "a moved-from channel was used");
    return *core_;
  }
  [[nodiscard]] operation_result run(const detail::operation_description& what, abort_at limit,
                                     std::source_location posted);
  // Gives the queue pair to the channel while `prepare` posts to it, and takes it back.
  [[nodiscard]] result<void> release_for_connect(queue_pair<rc>& to_be_connected,
                                                 channel_preparation prepare);
  // Takes the connected queue pair; returns the resume token of the peer.
  result<std::optional<resume_token>> take_over(cm::connection&& connected);
  template <class Bring>
  [[nodiscard]] result<reconnection> reconnect_managed(const cm::connection_options& options,
                                                       channel_preparation prepare,
                                                       Bring&& bring_up);

  detail::channel_core* core_;  // counted: hold() and release()
};

/// Describes the channel: queue pair, peer, state, operations in flight and free capacity. Queries
/// the queue pair, which may block in the kernel.
///
/// Example: `channel on queue pair 0x11 on soft0 to queue pair 0x12 at 192.0.2.1, connected, 3 in
/// flight, room for 61 sends and 64 receives`.
[[nodiscard]] std::string to_string(const channel& of);

// lint: allow(file-lines): one class, whose functions each have a documented contract
}  // namespace verbena::inline VERBENA_ABI
