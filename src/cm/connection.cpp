// SPDX-License-Identifier: MIT
#include "verbena/cm/connection.hpp"

#include <cerrno>
#include <chrono>

namespace verbena::inline VERBENA_ABI::cm {

connection& connection::operator=(connection&& other) noexcept {
  if (this == &other) return *this;
  close();
  ready_word_ = std::move(other.ready_word_);
  queue_ = std::move(other.queue_);
  id_ = std::move(other.id_);
  channel_ = std::move(other.channel_);
  said_ = std::move(other.said_);
  closed_ = other.closed_;
  disconnected_ = other.disconnected_;
  owns_queue_ = other.owns_queue_;
  return *this;
}

connection::~connection() { close(); }

void connection::close() noexcept {
  if (!id_.is_valid()) return;
  // If the peer cannot be notified now, its retries fail.
  if (!disconnected_) static_cast<void>(disconnect());
}

result<void> connection::flush() {
  if (!owns_queue_) return {};
  return queue_.modify(queue_pair_attributes().set_state(queue_pair_state::error));
}

result<bool> connection::is_disconnected() { return wait_disconnected(deadline::after({})); }

result<bool> connection::wait_disconnected(deadline until) {
  while (!disconnected_) {
    VERBENA_TRY(const auto taken, channel_.wait_event(until));
    if (!taken) return false;
    if (taken->kind() == event_kind::device_removal) {
      disconnected_ = true;
    } else if (taken->kind() == event_kind::disconnected) {
      disconnected_ = true;
      VERBENA_TRY_VOID(flush());
      // If the peer closed the connection, answers its request.
      if (!closed_) static_cast<void>(id_.disconnect());
      closed_ = true;
    }
  }
  return true;
}

result<void> connection::disconnect() {
  if (closed_) return {};
  closed_ = true;
  if (id_.is_iwarp()) {
    VERBENA_TRY_VOID(id_.disconnect());
    return flush();
  }
  VERBENA_TRY_VOID(flush());
  return id_.disconnect();
}

}  // namespace verbena::inline VERBENA_ABI::cm
