// SPDX-License-Identifier: MIT
#include "softdev/peers/service_requests.hpp"

namespace verbena::softdev {

void service_requests::end(peer& which, peer_end why) noexcept {
  which.mark_ended(why);
  changed_.insert(which.slot());
  some_ended_.store(true, std::memory_order_release);
}

void service_requests::end_for_record(peer& which) noexcept {
  add(broken_records_);
  end(which, peer_end::broken_protocol);
  request();
}

void service_requests::end_for_message(peer& which) noexcept {
  add(broken_messages_);
  end(which, peer_end::broken_protocol);
  request();
}

link_counters service_requests::counters() const noexcept {
  return {.broken_records = broken_records_.load(std::memory_order_relaxed),
          .broken_messages = broken_messages_.load(std::memory_order_relaxed),
          .refused_connections = refused_connections_.load(std::memory_order_relaxed),
          .peers_lost = peers_lost_.load(std::memory_order_relaxed)};
}

}  // namespace verbena::softdev
