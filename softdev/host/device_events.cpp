// SPDX-License-Identifier: MIT
#include "softdev/host/device_events.hpp"

namespace verbena::softdev {

void device_listeners::add(void* context, device_observer& observer) {
  const std::lock_guard lock(mutex_);
  all_.push_back({context, &observer});
}

void device_listeners::remove(const void* context) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [context](const auto& one) { return one.context == context; });
}

void device_listeners::raise(raised_event what) {
  const std::shared_lock lock(mutex_);
  for (const auto& [context, observer] : all_) observer->event(context, what);
}

}  // namespace verbena::softdev
