// SPDX-License-Identifier: MIT
#include "softdev/cm/incoming_connections.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbena::softdev::cm {
namespace {

constexpr std::chrono::milliseconds descriptor_interval{20};

}  // namespace

void incoming_connections::accept(std::uint32_t port_key, time_point now) {
  while (incoming_.size() < options_.max_incoming) {
    socket_or_error peer = ports_.next_peer(port_key);
    if (peer.error == EMFILE || peer.error == ENFILE || peer.error == ENOMEM) {
      // Other peers wait until descriptors are free again.
      ports_.pause();
      resume_accepting_at_ = now + descriptor_interval;
      return;
    }
    if (!peer.socket) return;
    const std::uint64_t at = next_number_++;
    if (watch_.watch(peer.socket.get(), {source_kind::incoming, at}) != 0) continue;
    incoming_.emplace(at, incoming_connection{.socket = std::move(peer.socket),
                                              .port_key = port_key,
                                              .give_up_at = now + options_.announce_timeout});
    read(at);
  }
  // Drops the oldest connection, which has still sent no frame.
  incoming_.erase(incoming_.begin());
}

void incoming_connections::read(std::uint64_t number) {
  const auto found = incoming_.find(number);
  if (found == incoming_.end()) return;
  frame request;
  const receive_outcome outcome = receive_frame(found->second.socket.get(), request);
  if (outcome == receive_outcome::nothing) return;
  incoming_connection from = std::move(found->second);
  incoming_.erase(found);
  watch_.unwatch(from.socket.get());
  if (outcome == receive_outcome::received && is_of_another_host(request.kind))
    remote_observer_.remote_request_arrived(from.port_key, request);
  else if (outcome == receive_outcome::received)
    observer_.request_arrived(std::move(from.socket), from.port_key, request);
  if (outcome == receive_outcome::other_version)
    send_rejection(from.socket.get(), {}, reject_reason::other_version);
}

void incoming_connections::expire(time_point now) {
  std::erase_if(incoming_, [&](const auto& each) { return each.second.give_up_at <= now; });
  if (resume_accepting_at_ > now) return;
  resume_accepting_at_ = time_point::max();
  ports_.resume();
}

time_point incoming_connections::next_deadline() const noexcept {
  time_point next = resume_accepting_at_;
  for (const auto& [number, each] : incoming_) next = std::min(next, each.give_up_at);
  return next;
}

void incoming_connections::drop(std::uint32_t port_key) {
  std::erase_if(incoming_, [&](const auto& each) { return each.second.port_key == port_key; });
}

void incoming_connections::close_all() noexcept {
  for (auto& [number, each] : incoming_) each.socket.reset();
}

}  // namespace verbena::softdev::cm
