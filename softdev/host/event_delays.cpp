// SPDX-License-Identifier: MIT
#include "softdev/host/event_delays.hpp"

#include <algorithm>
#include <mutex>

namespace verbena::softdev {

event_delays::entry* event_delays::find(const completion_queue& queue) noexcept {
  const auto found = std::ranges::find(entries_, &queue, &entry::queue);
  return found == entries_.end() ? nullptr : &*found;
}

void event_delays::update_earliest() noexcept {
  time_ns first = never;
  for (const entry& each : entries_) first = std::min(first, each.when);
  earliest_.store(first, std::memory_order_seq_cst);
}

void event_delays::add(completion_queue& queue) {
  const std::lock_guard lock(lock_);
  if (find(queue) == nullptr) entries_.push_back({&queue, never});
}

void event_delays::remove(const completion_queue& queue) noexcept {
  const std::lock_guard lock(lock_);
  std::erase_if(entries_, [&](const entry& each) { return each.queue == &queue; });
  update_earliest();
}

void event_delays::schedule(const completion_queue& queue, time_ns when) noexcept {
  const std::lock_guard lock(lock_);
  entry* const found = find(queue);
  if (found == nullptr) return;
  found->when = std::min(found->when, when);
  update_earliest();
}

void event_delays::raise_due(time_ns now) noexcept {
  if (earliest() > now) return;
  const std::lock_guard lock(
      lock_);  // until the events are raised, so that no queue is destroyed before
  for (entry& each : entries_) {
    if (each.when > now) continue;
    each.when = never;
    each.queue->end_delay();
  }
  update_earliest();
}

}  // namespace verbena::softdev
