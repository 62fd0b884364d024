// SPDX-License-Identifier: MIT
// Waiting for completions without spinning. completion_queue::wait() does it for one queue. In an
// event loop, arm the queue with request_notification(): it then puts one event into its channel
// when the next completion arrives. This order loses no completion:
//
//   queue.request_notification(notify::any_completion).value();        // arm
//   while (drain(queue) != 0) {}                                       // drain what came before
//   if (auto event = channel.wait(deadline::after(1s)).value()) ...    // then wait
//
// and repeat. If the queue is drained before it is armed, a completion in between causes no event.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/detail/handle.hpp"
#include "verbena/verbs/detail/queue_states.hpp"

namespace verbena::inline VERBENA_ABI {

class completion_queue;
class context;

/// Announces a completion in an armed completion queue.
///
/// The event was acknowledged when it was read, so the queue can be destroyed at any time.
/// Threads: immutable value.
class completion_event {
 public:
  /// Constructs an event of `queue`.
  explicit completion_event(ibv_cq* queue) noexcept : queue_(queue) {}

  /// Returns whether the event is of `queue`.
  [[nodiscard]] bool is_from(const completion_queue& queue) const;
  /// Returns the queue of the C API. Use it only for comparisons: it may be destroyed already.
  [[nodiscard]] ibv_cq* native_queue() const noexcept { return queue_; }
  friend bool operator==(const completion_event&, const completion_event&) noexcept = default;

 private:
  ibv_cq* queue_;
};

/// A completion channel: announces completions through a file descriptor.
///
/// Completion queues keep their channel alive. Copies share one channel.
/// Threads: one thread at a time; if two copies wait on two threads, each event reaches one of
/// them.
class completion_channel : public detail::handle<detail::completion_channel_state> {
 public:
  /// Takes over or borrows a channel that the C API created from `of`.
  ///
  /// Makes its descriptor non-blocking. Errors: the errno of fcntl(2); the caller then still owns
  /// the channel.
  [[nodiscard]] static result<completion_channel> adopt(ibv_comp_channel* native, const context& of,
                                                        ownership owner);

  /// Returns the descriptor for poll(2) or epoll(7); readable if there is an event.
  ///
  /// It is non-blocking. The channel owns it.
  [[nodiscard]] int fd() const;

  /// Takes one event; returns nullopt if there is none. Does not block or allocate.
  /// Errors: the errno of ibv_get_cq_event(3).
  [[nodiscard]] result<std::optional<completion_event>> poll_event() const;

  /// Waits for an event until the deadline; returns nullopt if the deadline passes.
  ///
  /// If another thread takes the event, continues to wait. Blocks; does not allocate.
  /// Errors: the errno of poll(2) or ibv_get_cq_event(3).
  [[nodiscard]] result<std::optional<completion_event>> wait(deadline until) const;

  /// Destroys the channel now; if that fails, returns the channel and the error.
  [[nodiscard]] close_result<completion_channel> close() &&;

 private:
  friend struct detail::internals;
  explicit completion_channel(std::shared_ptr<detail::completion_channel_state> state) noexcept
      : handle(std::move(state)) {}
};

}  // namespace verbena::inline VERBENA_ABI
