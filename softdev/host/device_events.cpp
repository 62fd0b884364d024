// SPDX-License-Identifier: MIT
#include "softdev/host/device_events.hpp"

namespace verbena::softdev {

void device_listeners::add(const device_listener& listener) {
  const std::lock_guard lock(mutex_);
  all_.push_back(listener);
}

void device_listeners::remove(const void* context) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [context](const auto& one) { return one.context == context; });
}

void device_listeners::raise(device_event what) {
  const std::lock_guard lock(mutex_);
  for (const auto& [context, tell] : all_) tell(context, what);
}

}  // namespace verbena::softdev
