// SPDX-License-Identifier: MIT
#include "src/net/rail_events.hpp"

#include <algorithm>
#include <utility>

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

bool concerns_rails(async_event_kind kind) noexcept {
  return kind == async_event_kind::port_error || kind == async_event_kind::port_active ||
         kind == async_event_kind::device_fatal || kind == async_event_kind::cq_error;
}

bool is_same_event(const rail_event& a, std::uint32_t rail, const async_event& event) noexcept {
  if (a.rail != rail || a.event.kind() != event.kind()) return false;
  if (event.kind() == async_event_kind::cq_error)
    return a.event.native().element.cq == event.native().element.cq;
  return a.event.port() == event.port();
}

}  // namespace

void rail_event_queue::put(std::uint32_t rail, const async_event& event) {
  if (!concerns_rails(event.kind())) return;
  const std::lock_guard lock(mutex_);
  // The last event of each kind counts: the port has this state.
  std::erase_if(events_, [&](const rail_event& each) { return is_same_event(each, rail, event); });
  events_.push_back({.rail = rail, .event = event});
  has_events_.store(true);
}

void rail_event_queue::take(std::vector<rail_event>& into) {
  into.clear();
  if (!has_events_.load()) return;
  const std::lock_guard lock(mutex_);
  std::swap(into, events_);
  has_events_.store(false);
}

rail_events::rail_events(std::span<const rail_port> rails) {
  for (std::uint32_t rail = 0; rail < rails.size(); ++rail) {
    auto device = rails[rail].domain.context();
    const auto is_same = [&](const watched_context& each) {
      return each.device.native() == device.native();
    };
    if (std::ranges::none_of(contexts_, is_same))
      contexts_.push_back({.rail = rail, .device = std::move(device)});
  }
}

std::shared_ptr<rail_event_queue> rail_events::add_queue() {
  return queues_.emplace_back(std::make_shared<rail_event_queue>());
}

void rail_events::read() {
  for (watched_context& each : contexts_) {
    while (true) {
      const auto event = each.device.poll_event();
      // After the removal of a device, its descriptor stays readable.
      each.is_working = event.has_value();
      if (!event || !*event) break;
      put(each.rail, **event);
    }
  }
}

void rail_events::put(std::uint32_t rail, const async_event& event) const {
  for (const auto& each : queues_) each->put(rail, event);
}

void rail_events::append_fds(std::vector<int>& to) const {
  for (const watched_context& each : contexts_)
    if (each.is_working) to.push_back(each.device.async_fd());
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
