// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/completed_operation.hpp"
#include "verbena/channel/detail/operation_table.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {

namespace async {
class engine;
namespace detail {
class engine_state;
}
}  // namespace async
namespace net::detail {
struct channel_access;
}

/// Options of completion_hub::create(). Threads: immutable value.
struct completion_hub_options {
  /// Whether the hub has a completion channel: fd(), arm() and wait() need it. Polling does not.
  bool events = false;
  /// The completion vector of the events; less than context::completion_vectors().
  std::uint32_t completion_vector = 0;
};

/// One completion queue for several channels. If one of them polls, the completions of all are
/// delivered.
///
/// Each channel reserves an entry for each operation that it can have in flight, so the queue
/// cannot overrun. Copies share the queue; channels keep it alive.
///
/// A program with an event loop creates the hub with `.events = true`, and waits for fd():
///
///   while (!hub.arm().value()) handle_finished_operations();  // arms; false: operations completed
///   // the loop waits until hub.fd() is readable or hub.next_deadline() passes, then:
///   hub.progress().value();
///
/// A message channel on the hub reserves message_channel::own_operations in addition to the depths
/// of its queues. progress() also posts its receives and grants credits to its peer.
///
/// Threads: one thread at a time, for the hub, its channels and their operations together.
class completion_hub {
 public:
  /// Creates a hub for `operations` in flight on all channels together: the sum of their
  /// `max_send_wr + max_recv_wr`, and message_channel::own_operations for each message channel.
  ///
  /// Errors: `invalid_argument` for 0 operations; the errno of ibv_create_cq(3), with the limit of
  /// the device; those of context::create_completion_channel(). Allocates; may block in the kernel.
  [[nodiscard]] static result<completion_hub> create(const context& of, std::uint32_t operations,
                                                     const completion_hub_options& options = {});

  /// Returns the number of operations that no channel has reserved.
  [[nodiscard]] std::uint32_t unreserved() const noexcept { return table_->unreserved(); }
  /// Returns the queue. Only channels and the hub may poll it and arm it.
  [[nodiscard]] const completion_queue& cq() const noexcept { return table_->cq(); }
  /// Returns whether the hub has a completion channel.
  [[nodiscard]] bool has_events() const noexcept { return table_->events().has_value(); }

  /// Polls until the queue is empty, or until it has delivered 256 completions. Never blocks or
  /// allocates. Returns the number of completions since the last call of progress(), arm() or
  /// wait(), whichever function polled them. A timer after which a message channel can continue
  /// counts as one.
  ///
  /// Errors: the errno of ibv_poll_cq(3). All operations in flight have then ended as `lost`, and
  /// the queue pairs of their channels are destroyed, as are those of all message channels. A
  /// channel with nothing in flight may keep its queue pair until it polls. A channel that is being
  /// connected ends with an error.
  [[nodiscard]] result<std::size_t> progress() const;

  /// Polls, and moves operations that were started with a tag, such as by channel::start_send(),
  /// and have ended to the front of `out`, in the order in which they ended. Returns their number;
  /// if it is `out.size()`, there may be more. Never blocks or allocates.
  ///
  ///   for (const auto& each : std::span(ended).first(hub.next_completed(ended).value()))
  ///     sessions[each.tag].continue_after(each.result);
  ///
  /// Errors: those of progress(), if no operation has ended.
  [[nodiscard]] result<std::size_t> next_completed(std::span<completed_operation> out) const;

  /// Polls, and moves the tags of message channels for which something has changed to the front of
  /// `out`: messages, room, credit, or the end of the channel. Returns their number; if it is
  /// `out.size()`, there may be more. Only channels with message_channel::set_tag() have a tag.
  ///
  /// A channel is named once, until something changes again: call try_receive() until it returns
  /// no message. Never blocks or allocates. Errors: those of progress(), if no channel is named.
  [[nodiscard]] result<std::size_t> next_ready(std::span<std::uint64_t> out) const;

  /// Returns the descriptor for poll(2) and epoll(7), which the hub owns. After arm() has returned
  /// true, it becomes readable with the next completion. Precondition: has_events().
  [[nodiscard]] int fd() const;
  /// Returns when progress() must be called even if fd() is not readable: message channels have
  /// timers while they wait for credit or for buffers of the program.
  [[nodiscard]] deadline next_deadline() const noexcept;
  /// Requests an event for the next completion, then polls. Returns true if there was no completion
  /// since the last call of progress(), arm() or wait(), and next_completed() has nothing to
  /// return, so that the caller may wait for fd() until next_deadline().
  ///
  /// If it returns false, completions were delivered, here or by functions of the channels; examine
  /// the operations and call arm() again before waiting. Takes and
  /// acknowledges the events that the hub has received. Never blocks or allocates.
  /// Errors: the errno of ibv_get_cq_event(3) or ibv_req_notify_cq(3); those of progress().
  /// Precondition: has_events().
  [[nodiscard]] result<bool> arm() const;
  /// Waits until at least one completion was delivered, next_completed() or next_ready() has
  /// something to return, or `until` passes. Returns the number of completions, at least 1, or 0 if
  /// `until` passed. Sleeps in poll(2).
  ///
  /// Errors: those of arm(), and the errno of poll(2). Precondition: has_events().
  [[nodiscard]] result<std::size_t> wait(deadline until) const;

 private:
  friend class protection_domain;
  friend class channel;
  friend class message_channel;
  friend class async::engine;
  friend class async::detail::engine_state;
  friend struct net::detail::channel_access;
  explicit completion_hub(std::shared_ptr<detail::operation_table> table) noexcept
      : table_(std::move(table)) {}
  // Reads the requested event if it is there. Otherwise the queue stays armed.
  [[nodiscard]] result<void> read_event() const;
  [[nodiscard]] result<std::size_t> arm_and_progress() const;
  [[nodiscard]] bool has_something_to_return() const noexcept;
  // Ends the operations of all channels after a failed poll, and describes the failure.
  [[nodiscard]] error lose_all() const;

  std::shared_ptr<detail::operation_table> table_;
};

}  // namespace verbena::inline VERBENA_ABI
