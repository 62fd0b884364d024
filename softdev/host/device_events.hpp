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

/// The report of one event to one context. Threads: one thread at a time.
struct event_report {
  void* context = nullptr;
  raised_event what;
  bool has_begun = false;      ///< for the observer
  std::vector<void*> waiting;  ///< for the observer: what the event has not reached yet
};

/// Receives the events of the device for each context. Threads: thread-safe. A shared lock of the
/// listeners is held, so the observer must not add or remove contexts.
class device_observer {
 public:
  /// Begins or continues a report, without waiting for a thread of the program. Returns false if
  /// it must be called again, because a thread has an open batch.
  virtual bool event(event_report& report) = 0;

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
  /// Reports an event to all contexts, on this thread. Waits for open batches of other threads,
  /// without a lock: the thread of a batch may add or remove contexts.
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
    std::uint64_t number = 0;  ///< another context can get the address of a removed one
  };
  /// A report that is not complete.
  struct open_report {
    std::uint64_t listener_number = 0;
    device_observer* observer = nullptr;
    event_report report;
  };

  std::shared_mutex mutex_;
  std::vector<listener> all_;
  std::uint64_t next_number_ = 1;
};

}  // namespace verbena::softdev
