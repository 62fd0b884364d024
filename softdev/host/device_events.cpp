// SPDX-License-Identifier: MIT
#include "softdev/host/device_events.hpp"

#include <algorithm>

#include "softdev/core/spin_wait.hpp"

namespace verbena::softdev {

void device_listeners::add(void* context, device_observer& observer) {
  const std::lock_guard lock(mutex_);
  all_.push_back({context, &observer, next_number_++});
}

void device_listeners::remove(const void* context) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [context](const auto& one) { return one.context == context; });
}

void device_listeners::raise(raised_event what) {
  std::vector<open_report> left;
  {
    const std::shared_lock lock(mutex_);
    for (const listener& each : all_) {
      event_report begun{.context = each.context, .what = what};
      if (!each.observer->event(begun)) left.push_back({each.number, each.observer, begun});
    }
  }
  for (spin_wait pause; !left.empty(); pause.once()) {
    const std::shared_lock lock(mutex_);
    std::erase_if(left, [&](open_report& each) {
      const bool is_open =
          std::ranges::find(all_, each.listener_number, &listener::number) != all_.end();
      return !is_open || each.observer->event(each.report);
    });
  }
}

}  // namespace verbena::softdev
