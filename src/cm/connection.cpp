// SPDX-License-Identifier: MIT
#include "verbena/cm/connection.hpp"

#include <cerrno>
#include <chrono>
#include <utility>

namespace verbena::inline VERBENA_ABI::cm {

connection::connection(event_channel channel, identifier id, queue_pair<rc> queue,
                       std::vector<std::byte> said) noexcept
    : channel_(std::move(channel)),
      id_(std::move(id)),
      said_(std::move(said)),
      queue_(std::move(queue)) {}

connection::connection(connection&&) noexcept = default;

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

std::optional<socket_address> connection::local_address() const { return id_.local_address(); }

std::optional<socket_address> connection::peer_address() const { return id_.peer_address(); }

result<void> connection::notify_established() {
  return id_.notify(async_event_kind::communication_established);
}

void connection::close() noexcept {
  if (!id_.is_valid()) return;
  // If notifying the peer fails, the peer's requests fail when its retries are exhausted.
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
      // If the peer closed the connection, respond to its disconnect request.
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

result<verbena::context> pending_connection::context() const { return id_.context(); }

port_number pending_connection::port() const { return id_.port().value_or(port_number(1)); }

std::optional<socket_address> pending_connection::local_address() const {
  return id_.local_address();
}

std::optional<socket_address> pending_connection::peer_address() const {
  return id_.peer_address();
}

result<prepared_queue_pair<rc>> pending_connection::create_qp(
    const protection_domain& pd, const completion_queue& send, const completion_queue& receive,
    queue_pair_options<rc> options) const {
  options.route.port = port();
  return pd.create_qp<rc>(send, receive, options);
}

result<prepared_queue_pair<rc>> pending_connection::create_qp(
    const protection_domain& pd, const completion_queue& send, const completion_queue& receive,
    const shared_receive_queue& shared, queue_pair_options<rc> options) const {
  options.route.port = port();
  return pd.create_qp<rc>(send, receive, shared, options);
}

}  // namespace verbena::inline VERBENA_ABI::cm
