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
  if (outbox_.empty() && send(message, descriptor) != send_status::full) return true;
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
  for (const queued_message& each : outbox_) {
    if (send(each.message, each.descriptor) == send_status::full) break;
    ++sent;  // closed: the peer is gone and needs no message
  }
  outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(sent));
}

}  // namespace verbena::softdev
