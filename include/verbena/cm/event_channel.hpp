// SPDX-License-Identifier: MIT
#pragma once

#include <rdma/rdma_cma.h>

#include <memory>
#include <optional>
#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/cm/event.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::inline VERBENA_ABI::cm {

namespace detail {
class channel_state;
}  // namespace detail

/// The event channel of identifiers. Copies share one channel; identifiers keep it alive.
/// Threads: thread-safe; each event is returned to one thread.
class event_channel {
 public:
  /// Creates a channel. Uses the system's connection manager if it serves an RDMA device, otherwise
  /// that of the software device. VERBENA_SOFTDEV=only selects the software device, =off the
  /// system. All channels of a process use one provider. Errors: those of cm_functions() and
  /// rdma_create_event_channel(3).
  [[nodiscard]] static result<event_channel> create();
  /// Creates a channel of the provider `from`. Errors: those of cm_functions() and
  /// rdma_create_event_channel(3).
  [[nodiscard]] static result<event_channel> create(const verbena::provider& from);

  /// Returns the descriptor for poll(2), epoll(7) or an event loop: readable if there is an event.
  /// It is non-blocking; the channel keeps ownership.
  [[nodiscard]] int fd() const;
  /// Returns one event, or `nullopt` if there is none. Never blocks.
  /// Errors: the errno of rdma_get_cm_event(3).
  [[nodiscard("an event comes only once: look at it")]] result<std::optional<event>> poll_event()
      const;
  /// Waits for an event. Returns `nullopt` if the deadline passes. Blocks.
  /// Errors: the errno of poll(2) or rdma_get_cm_event(3).
  [[nodiscard("an event comes only once: look at it")]] result<std::optional<event>> wait_event(
      deadline until) const;

  /// Returns the object of the C API; this library keeps ownership.
  [[nodiscard]] rdma_event_channel* native() const;
  /// Returns the provider that executes the calls.
  [[nodiscard]] const verbena::provider& provider() const;

 private:
  friend class identifier;
  explicit event_channel(std::shared_ptr<detail::channel_state> state) noexcept
      : state_(std::move(state)) {}
  [[nodiscard]] const std::shared_ptr<detail::channel_state>& state() const;

  std::shared_ptr<detail::channel_state> state_;
};

/// Returns the provider that event_channel::create() uses. Errors: those of create().
[[nodiscard]] result<const verbena::provider*> default_provider();

}  // namespace verbena::inline VERBENA_ABI::cm
