// SPDX-License-Identifier: MIT
// What happens to the device or its port, and who is told.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace verbena::softdev {

/// ibv_event_type, those that are about no object.
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

/// Learns what happens to the device, for each context. Threads: thread-safe, with the lock of the
/// listeners held: must not call them.
class device_observer {
 public:
  virtual void event(void* context, device_event what) = 0;

 protected:
  ~device_observer() = default;
};

/// The open contexts of a process. Threads: thread-safe.
class device_listeners {
 public:
  /// `observer` outlives the listeners. Allocates.
  void add(void* context, device_observer& observer);
  /// When it returns, `context` is told nothing any more.
  void remove(const void* context) noexcept;
  /// Tells all of them, on this thread.
  void raise(device_event what);
  /// Calls `action` with the context of each, which stays until it returns.
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

  std::mutex mutex_;
  std::vector<listener> all_;
};

}  // namespace verbena::softdev
