// SPDX-License-Identifier: MIT
// Completion events, for threads that sleep until a completion arrives. completion_queue::wait()
// waits for one queue. In an event loop, request_notification() arms a queue: the next completion
// adds one event to the channel of the queue. This order loses no completion:
//
//   queue.request_notification(notify::any_completion).value();        // arm
//   while (drain(queue) != 0) {}                                       // poll until it is empty
//   if (auto event = channel.wait(deadline::after(1s)).value()) ...    // then wait
//
// If the queue is polled before it is armed, a completion in between does not cause an event.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/detail/queue_states.hpp"
#include "verbena/verbs/handle.hpp"

namespace verbena::inline VERBENA_ABI {

class completion_queue;
class context;

/// An event of an armed completion queue. Source: ibv_get_cq_event(3).
///
/// The library acknowledges an event before it returns the event. Therefore close() and destructors
/// never wait for unacknowledged events. Threads: immutable value.
class completion_event {
 public:
  /// Makes an event of `queue`.
  explicit completion_event(ibv_cq* queue) noexcept : queue_(queue) {}

  /// Returns whether the event belongs to `queue`.
  [[nodiscard]] bool is_from(const completion_queue& queue) const;
  /// Returns the queue of the C API. Do not dereference it: the queue may not exist.
  [[nodiscard]] ibv_cq* native_queue() const noexcept { return queue_; }
  friend bool operator==(const completion_event&, const completion_event&) noexcept = default;

 private:
  ibv_cq* queue_;
};

/// A file descriptor for events of completion queues, created by
/// context::create_completion_channel().
///
/// Copies share the completion channel. The channel is destroyed when its last copy and all its
/// completion queues have been destroyed.
/// Threads: one thread at a time uses each handle. Different threads may use copies concurrently.
/// Each event is returned to one of the waiting threads.
class completion_channel : public handle<detail::completion_channel_state> {
 public:
  /// Adopts a completion channel of the C API and makes its descriptor non-blocking. Precondition:
  /// it belongs to `of`.
  ///
  /// Errors: the errno of fcntl(2); the caller then still owns the channel.
  [[nodiscard]] static result<completion_channel> adopt(ibv_comp_channel* native, const context& of,
                                                        ownership owner);

  /// Returns the descriptor for poll(2) and epoll(7). It is readable if there is an event. It is
  /// non-blocking, and the channel owns it.
  [[nodiscard]] int fd() const;

  /// Takes one event, or returns `nullopt` if there is none. Does not block or allocate.
  ///
  /// Errors: the errno of ibv_get_cq_event(3).
  [[nodiscard]] result<std::optional<completion_event>> poll_event() const;

  /// Waits for an event until the deadline. If the deadline passes, returns `nullopt`. Signals, and
  /// events that another thread takes, do not end the wait. Blocks; does not allocate.
  ///
  /// Errors: the errno of poll(2) or ibv_get_cq_event(3).
  [[nodiscard]] result<std::optional<completion_event>> wait(deadline until) const;

  /// Destroys the channel: ibv_destroy_comp_channel(3). If the channel is shared, or if the verb
  /// fails, returns the channel with the error.
  [[nodiscard]] close_result<completion_channel> close() &&;

 private:
  friend struct detail::internals;
  explicit completion_channel(std::shared_ptr<detail::completion_channel_state> state) noexcept
      : handle(std::move(state)) {}
};

}  // namespace verbena::inline VERBENA_ABI
