// SPDX-License-Identifier: MIT
// Waiting for completions without spinning. A queue that is armed by request_notification() puts
// one event into its channel when the next completion arrives. Nothing is lost in this order:
//
//   queue.request_notification(notify::any_completion).value();        // arm
//   while (drain(queue) != 0) {}                                       // drain what came before
//   if (auto event = channel.wait(deadline::after(1s)).value()) ...    // then wait
//
// and again from the top. Draining before arming can sleep through a completion.
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

/// Says which completion queue has a completion since it was armed. It is a copy: the event itself
/// was acknowledged before it was delivered, so a queue can be destroyed at any time.
/// Threads: immutable value.
class completion_event {
  /// Of an event of `queue` that is acknowledged already.
 public:
  explicit completion_event(ibv_cq* queue) noexcept : queue_(queue) {}

  /// True when the event is of `queue`.
  [[nodiscard]] bool is_from(const completion_queue& queue) const;
  /// The queue in the C API; to be compared, since the queue may be gone.
  [[nodiscard]] ibv_cq* native_queue() const noexcept { return queue_; }

 private:
  ibv_cq* queue_;
};

/// Where completion queues report that they have something. Queues that are made with a channel
/// keep it alive. Copies share one channel. Threads: one thread at a time; two copies may wait on
/// two threads, then each event reaches one.
class completion_channel : public detail::handle<detail::completion_channel_state> {
 public:
  /// Takes over or borrows a channel that the C API made from `of`, and makes its descriptor
  /// non-blocking. Errors: the errno of fcntl(2); the channel then stays the caller's.
  [[nodiscard]] static result<completion_channel> adopt(ibv_comp_channel* native, const context& of,
                                                        ownership owner);

  /// The descriptor to put into poll(2) or epoll(7): readable when there is an event. Non-blocking;
  /// it stays the channel's.
  [[nodiscard]] int fd() const;

  /// Takes one event, or nothing if there is none. Does not block or allocate.
  /// Errors: the errno of ibv_get_cq_event(3).
  [[nodiscard]] result<std::optional<completion_event>> poll_event() const;

  /// Waits for an event until the deadline; nothing when it passes. An event that another thread
  /// takes is waited out. Blocks; does not allocate.
  /// Errors: the errno of poll(2) or ibv_get_cq_event(3).
  [[nodiscard]] result<std::optional<completion_event>> wait(deadline until) const;

  /// Destroys the channel now, or hands it back with the reason.
  [[nodiscard]] close_result<completion_channel> close() &&;

 private:
  friend struct detail::internals;
  explicit completion_channel(std::shared_ptr<detail::completion_channel_state> state) noexcept
      : handle(std::move(state)) {}
};

}  // namespace verbena::inline VERBENA_ABI
