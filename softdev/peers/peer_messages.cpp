// SPDX-License-Identifier: MIT
#include "softdev/peers/peer_messages.hpp"

#include <sys/socket.h>

#include <span>
#include <utility>

namespace verbena::softdev {
namespace {

constexpr std::size_t max_queued_messages = 4096;

}  // namespace

void peer_messages::connect(unique_fd socket) noexcept { socket_ = std::move(socket); }

void peer_messages::shut_down() noexcept {
  if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

bool peer_messages::post(const link_message& message, unique_fd descriptor) {
  if (outbox_.empty() && try_next(message, descriptor)) return true;
  if (outbox_.size() >= max_queued_messages) return false;
  outbox_.push_back({message, std::move(descriptor)});
  return true;
}

send_status peer_messages::send(const link_message& message, const unique_fd& descriptor) noexcept {
  const int fd = descriptor.get();
  return send_message(socket_.get(), message, std::span(&fd, descriptor ? 1 : 0));
}

void peer_messages::flush() {
  std::size_t sent = 0;
  delayed_ = false;
  for (const queued_message& each : outbox_) {
    if (!try_next(each.message, each.descriptor)) break;
    ++sent;
  }
  outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(sent));
}

/// Returns whether the message needs no further attempt: if the connection is closed, the peer is
/// gone and needs no message.
bool peer_messages::try_next(const link_message& message, const unique_fd& descriptor) noexcept {
  const send_status status = send(message, descriptor);
  delayed_ = status == send_status::delayed;
  return status == send_status::sent || status == send_status::closed;
}

void peer_messages::close_queued() noexcept {
  for (queued_message& each : outbox_) each.descriptor.reset();
}

}  // namespace verbena::softdev
