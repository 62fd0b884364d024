// SPDX-License-Identifier: MIT
#include "softdev/cm/newcomers.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbena::softdev::cm {
namespace {

constexpr std::chrono::milliseconds descriptor_interval{20};

}  // namespace

void newcomers::accept(std::uint32_t port_key, time_point now) {
  while (newcomers_.size() < options_.max_newcomers) {
    socket_or_error peer = ports_.next_peer(port_key);
    if (peer.error == EMFILE || peer.error == ENFILE || peer.error == ENOMEM) {
      // Other peers wait until descriptors are free again.
      ports_.pause();
      resume_accepting_at_ = now + descriptor_interval;
      return;
    }
    if (!peer.socket) return;
    const std::uint64_t at = next_number_++;
    if (watch_.watch(peer.socket.get(), {source_kind::newcomer, at}) != 0) continue;
    newcomers_.emplace(at, newcomer{.socket = std::move(peer.socket),
                                    .port_key = port_key,
                                    .give_up_at = now + options_.announce_timeout});
    read(at);
  }
  // Drops the oldest newcomer, which has still sent no frame.
  newcomers_.erase(newcomers_.begin());
}

void newcomers::read(std::uint64_t number) {
  const auto found = newcomers_.find(number);
  if (found == newcomers_.end()) return;
  frame asked;
  const receive_outcome outcome = receive_frame(found->second.socket.get(), asked);
  if (outcome == receive_outcome::nothing) return;
  newcomer from = std::move(found->second);
  newcomers_.erase(found);
  watch_.unwatch(from.socket.get());
  if (outcome == receive_outcome::received && is_of_another_host(asked.kind))
    remote_observer_.remote_request_arrived(from.port_key, asked);
  else if (outcome == receive_outcome::received)
    observer_.request_arrived(std::move(from.socket), from.port_key, asked);
  if (outcome == receive_outcome::other_version)
    send_refusal(from.socket.get(), {}, reject_reason::other_version);
}

void newcomers::expire(time_point now) {
  std::erase_if(newcomers_, [&](const auto& each) { return each.second.give_up_at <= now; });
  if (resume_accepting_at_ > now) return;
  resume_accepting_at_ = time_point::max();
  ports_.resume();
}

time_point newcomers::next_deadline() const noexcept {
  time_point next = resume_accepting_at_;
  for (const auto& [number, each] : newcomers_) next = std::min(next, each.give_up_at);
  return next;
}

void newcomers::drop(std::uint32_t port_key) {
  std::erase_if(newcomers_, [&](const auto& each) { return each.second.port_key == port_key; });
}

void newcomers::close_all() noexcept {
  for (auto& [number, each] : newcomers_) each.socket.reset();
}

}  // namespace verbena::softdev::cm
