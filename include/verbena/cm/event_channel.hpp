// SPDX-License-Identifier: MIT
#pragma once

#include <rdma/rdma_cma.h>

#include <memory>
#include <optional>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/cm/detail/states.hpp"
#include "verbena/cm/event.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// Where identifiers report. Copies share one channel; identifiers keep it alive.
/// Threads: thread-safe; of several threads each event reaches one.
class event_channel {
 public:
  /// A channel of the system's connection manager if there is RDMA hardware that it serves, else of
  /// the software device's; VERBENA_SOFTDEV=only takes the latter, =off the former. All channels of
  /// a process are then of one kind. Errors: as cm_functions(); those of
  /// rdma_create_event_channel(3) with a remedy.
  [[nodiscard]] static result<event_channel> create();
  /// A channel of one provider.
  [[nodiscard]] static result<event_channel> create(const verbena::provider& from);

  /// The descriptor to put into poll(2), epoll(7) or an event loop: readable when there is an
  /// event. Non-blocking; it stays the channel's.
  [[nodiscard]] int fd() const;
  /// Takes one event, or nothing if there is none. Never blocks.
  /// Errors: the errno of rdma_get_cm_event(3).
  [[nodiscard("an event comes only once: look at it")]] result<std::optional<event>> poll_event()
      const;
  /// Waits for an event until the deadline and not shorter; nothing when it passes. Blocks.
  /// Errors: the errno of poll(2) or rdma_get_cm_event(3).
  [[nodiscard("an event comes only once: look at it")]] result<std::optional<event>> wait_event(
      deadline until) const;

  /// The object of the C API; it stays owned by this library.
  [[nodiscard]] rdma_event_channel* native() const;
  /// Who executes the calls.
  [[nodiscard]] const verbena::provider& provider() const;

 private:
  friend class identifier;
  explicit event_channel(std::shared_ptr<detail::channel_state> state) noexcept
      : state_(std::move(state)) {}
  [[nodiscard]] const std::shared_ptr<detail::channel_state>& state() const;

  std::shared_ptr<detail::channel_state> state_;
};

/// The provider that event_channel::create() takes. Errors: as there.
[[nodiscard]] result<const verbena::provider*> default_provider();

}  // namespace verbena::inline VERBENA_ABI::cm
