// SPDX-License-Identifier: MIT
// Asynchronous events of the device and its port, and their observers.
#pragma once

#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace verbena::softdev {

/// The values of ibv_event_type for events of the device or its port.
enum class device_event : std::uint8_t {
  fatal = 8,
  port_active = 9,
  port_error = 10,
  lid_change = 11,
  pkey_change = 12,
  sm_change = 13,
  client_reregister = 17,
  gid_change = 18,
  speed_change = 20,
};

/// An event, and the port of an event of a port. Threads: immutable value.
struct raised_event {
  device_event what = device_event::fatal;
  std::uint8_t port = 1;
};

/// Receives the events of the device for each context. Threads: thread-safe. A shared lock of the
/// listeners is held, so the observer must not add or remove contexts.
class device_observer {
 public:
  virtual void event(void* context, raised_event what) = 0;

 protected:
  ~device_observer() = default;
};

/// The open contexts of a process. Threads: thread-safe.
class device_listeners {
 public:
  /// Adds a context. `observer` must outlive the listeners. Allocates.
  void add(void* context, device_observer& observer);
  /// Removes a context. After the return, no event is reported to it.
  void remove(const void* context) noexcept;
  /// Reports an event to all contexts, on this thread.
  void raise(raised_event what);
  void raise(device_event what) { raise(raised_event{.what = what}); }
  /// Calls `action` with each context. No context is removed before `action` returns.
  template <class Action>
  void for_each(Action action) {
    const std::lock_guard lock(mutex_);
    for (const auto& each : all_) action(each.context);
  }

 private:
  struct listener {
    void* context = nullptr;
    device_observer* observer = nullptr;
  };

  // Shared by threads that report events: one of them may wait for a batch of the other.
  std::shared_mutex mutex_;
  std::vector<listener> all_;
};

}  // namespace verbena::softdev
