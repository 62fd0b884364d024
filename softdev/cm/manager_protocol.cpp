// SPDX-License-Identifier: MIT
// The thread: peers that come, what they say, and deadlines.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "softdev/cm/manager.hpp"
#include "softdev/ipc/eventfd.hpp"
#include "softdev/ipc/local_socket.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev::cm {
namespace {

constexpr std::chrono::seconds longest_wait{10};
constexpr std::chrono::milliseconds descriptor_interval{20};
constexpr int frames_per_turn = 8;
constexpr unsigned kind_shift = 56;

}  // namespace

int manager::watch(int fd, source_kind kind, std::uint64_t number) const noexcept {
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  wanted.data.u64 = (static_cast<std::uint64_t>(kind) << kind_shift) | number;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted) == 0 ? 0 : errno;
}

void manager::unwatch(const unique_fd& fd) const noexcept {
  if (fd) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
}

void manager::set_deadline(endpoint& which, time_point when) {
  if (which.deadline_ != time_point::max()) deadlines_.erase({which.deadline_, which.number_});
  which.deadline_ = when;
  if (when == time_point::max()) return;
  deadlines_.emplace(when, which.number_);
  if (when >= sleeps_until_ || pthread_equal(pthread_self(), thread_) != 0) return;
  sleeps_until_ = when;
  wake();
}

void manager::wake() const noexcept { signal_eventfd(wake_.get()); }

void* manager::enter(void* self) noexcept {
  static_cast<manager*>(self)->loop();
  return nullptr;
}

int manager::wait_milliseconds() {
  const lock guard(mutex_);
  const time_point now = std::chrono::steady_clock::now();
  // While there are endpoints it wakes now and then, so that few deadlines have to wake it.
  time_point next = endpoints_.empty() ? time_point::max() : now + longest_wait;
  next = std::min(next, resume_accepting_at_);
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  for (const auto& [number, each] : newcomers_) next = std::min(next, each.give_up_at);
  sleeps_until_ = next;
  if (next == time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now);
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

void manager::loop() {
  std::array<epoll_event, 64> events{};
  while (true) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   wait_milliseconds());
    const lock guard(mutex_);
    if (stop_) return;
    const time_point now = std::chrono::steady_clock::now();
    for (int index = 0; index < count; ++index)
      dispatch(events[static_cast<std::size_t>(index)].data.u64, now);
    expire(now);
  }
}

void manager::dispatch(std::uint64_t tag, time_point now) {
  const auto kind = static_cast<source_kind>(tag >> kind_shift);
  const std::uint64_t number = tag & ((std::uint64_t{1} << kind_shift) - 1);
  switch (kind) {
    case source_kind::wake:
      return drain_eventfd(wake_.get());
    case source_kind::port:
      return accept_newcomers(number, now);
    case source_kind::newcomer:
      return read_newcomer(number, now);
    case source_kind::published:
      if (const auto found = endpoints_.find(number); found != endpoints_.end())
        found->second->published_.dismiss();
      return;
    case source_kind::endpoint:
      if (const auto found = endpoints_.find(number); found != endpoints_.end()) {
        const endpoint_ptr which = found->second;
        read_endpoint(which, now);
      }
      return;
  }
}

void manager::expire(time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto found = endpoints_.find(deadlines_.begin()->second);
    if (found == endpoints_.end()) {
      deadlines_.erase(deadlines_.begin());
      continue;
    }
    const endpoint_ptr which = found->second;
    set_deadline(*which, time_point::max());
    expire(which, now);
  }
  std::erase_if(newcomers_, [&](const auto& each) { return each.second.give_up_at <= now; });
  if (resume_accepting_at_ > now) return;
  resume_accepting_at_ = time_point::max();
  for (const auto& each : ports_) {
    for_each_socket(each.second, [this, number = each.second.number](const unique_fd& socket) {
      static_cast<void>(watch(socket.get(), source_kind::port, number));
    });
  }
}

/// Calls `action` with each socket on which peers connect to a port.
template <class Action>
void manager::for_each_socket(const port& where, Action action) {
  if (where.socket) {
    if (where.open) action(where.socket);
    return;
  }
  for (const endpoint* each : where.holders)
    if (each->phase_ == phase::listening) action(each->own_socket_);
}

socket_or_error manager::next_peer(const port& where) noexcept {
  socket_or_error peer{{}, EAGAIN};
  for_each_socket(where, [&](const unique_fd& socket) {
    if (!peer.socket && peer.error == EAGAIN) peer = accept_peer(socket.get());
  });
  return peer;
}

void manager::expire(const endpoint_ptr& which, time_point now) {
  switch (which->phase_) {
    case phase::waiting:
      if (now < which->give_up_at_) {
        if (send_request(which, now) == 0) return;
      }
      give_up(which);
      return;
    case phase::requesting:
    case phase::replied:
      give_up(which);
      return;
    case phase::disconnecting:
      end_connection(which, now);
      return;
    case phase::timewait:
      finish(*which);
      tell(which, event_kind::timewait_exit, 0);
      return;
    default:
      return;
  }
}

void manager::give_up(const endpoint_ptr& which) {
  if (which->socket_ && !which->datagram())
    static_cast<void>(say(*which, frame_kind::rejection, reject_reason::timeout));
  finish(*which);
  tell(which, event_kind::unreachable, -ETIMEDOUT);
}

void manager::accept_newcomers(std::uint64_t number, time_point now) {
  const auto found = ports_.find(static_cast<std::uint32_t>(number));
  if (found == ports_.end()) return;
  while (newcomers_.size() < options_.max_newcomers) {
    socket_or_error peer = next_peer(found->second);
    if (peer.error == EMFILE || peer.error == ENFILE || peer.error == ENOMEM) {
      // The others wait until descriptors are free again.
      for (const auto& [key, each] : ports_)
        for_each_socket(each, [&](const unique_fd& socket) { unwatch(socket); });
      resume_accepting_at_ = now + descriptor_interval;
      return;
    }
    if (!peer.socket) return;
    const std::uint64_t at = next_number_++;
    if (watch(peer.socket.get(), source_kind::newcomer, at) != 0) continue;
    newcomers_.emplace(at, newcomer{.socket = std::move(peer.socket),
                                    .port_key = found->first,
                                    .give_up_at = now + options_.announce_timeout});
    read_newcomer(at, now);
  }
  // Those that came first and still say nothing make room.
  newcomers_.erase(newcomers_.begin());
}

void manager::read_newcomer(std::uint64_t number, time_point /*now*/) {
  const auto found = newcomers_.find(number);
  if (found == newcomers_.end()) return;
  frame asked;
  const receive_outcome outcome = receive_frame(found->second.socket.get(), asked);
  if (outcome == receive_outcome::nothing) return;
  newcomer from = std::move(found->second);
  newcomers_.erase(found);
  if (outcome == receive_outcome::received) return request_arrived(std::move(from), asked);
  if (outcome == receive_outcome::other_version)
    refuse(from.socket.get(), {}, reject_reason::other_version);
}

void manager::refuse(int socket, const frame& asked, std::uint32_t reason) {
  frame answer;
  answer.space = asked.space;
  answer.source = asked.destination;
  answer.destination = asked.source;
  const bool lookup = asked.kind == frame_kind::lookup;
  answer.kind = lookup ? frame_kind::lookup_reply : frame_kind::rejection;
  answer.reason = reason;
  if (lookup)
    answer.reason =
        reason == reject_reason::no_listener ? lookup_status::no_listener : lookup_status::rejected;
  static_cast<void>(send_frame(socket, answer));
}

endpoint* manager::listener_for(std::uint32_t key, const address& destination) const {
  const auto found = ports_.find(key);
  if (found == ports_.end()) return nullptr;
  endpoint* wildcard = nullptr;
  for (endpoint* each : found->second.holders) {
    if (each->phase_ != phase::listening) continue;
    if (same_host(each->source_, destination)) return each;
    const bool takes_family =
        each->source_.family == destination.family ||
        (each->source_.family == address_family::ipv6 && !each->options_.one_family);
    if (is_wildcard(each->source_) && takes_family) wildcard = each;
  }
  return wildcard;
}

void manager::request_arrived(newcomer from, const frame& asked) {
  const bool opens = asked.kind == frame_kind::request || asked.kind == frame_kind::lookup;
  endpoint* const listener = opens ? listener_for(from.port_key, asked.destination) : nullptr;
  if (!opens) return;
  const bool fits = listener != nullptr && listener->space_ == asked.space &&
                    listener->datagram() == (asked.kind == frame_kind::lookup);
  if (!fits) return refuse(from.socket.get(), asked, reject_reason::no_listener);
  if (listener->waiting_requests_ >= listener->backlog_)
    return refuse(from.socket.get(), asked, reject_reason::consumer);
  const endpoint_ptr made = make_endpoint(asked.space);
  made->phase_ = phase::requested;
  made->adopted_ = false;
  made->channel_ = listener->channel_;
  made->source_ = asked.destination;
  made->destination_ = asked.source;
  made->remote_ = asked.from;
  unwatch(from.socket);
  made->socket_ = std::move(from.socket);
  if (watch(made->socket_.get(), source_kind::endpoint, made->number_) != 0) return;
  endpoints_.emplace(made->number_, made);
  event what;
  what.kind = event_kind::connect_request;
  what.about = made;
  what.listener = endpoints_.at(listener->number_);
  what.remote = asked.from;
  what.data = asked.data;
  what.data.length = private_limit(asked.kind);  // it arrives padded
  ++listener->waiting_requests_;
  listener->channel_->push(std::move(what));
}

// Nobody listens any more: those who have come meanwhile are told so.
void manager::turn_away(const unique_fd& socket) {
  if (!socket) return;
  for (std::size_t turn = 0; turn < options_.max_backlog; ++turn) {
    const socket_or_error peer = accept_peer(socket.get());
    if (!peer.socket) return;
    frame asked;
    if (receive_frame(peer.socket.get(), asked) == receive_outcome::received)
      refuse(peer.socket.get(), asked, reject_reason::no_listener);
  }
}

void manager::read_endpoint(const endpoint_ptr& which, time_point now) {
  for (int turn = 0; turn < frames_per_turn && which->socket_; ++turn) {
    frame said;
    const receive_outcome outcome = receive_frame(which->socket_.get(), said);
    if (outcome == receive_outcome::nothing) return;
    if (outcome == receive_outcome::received && handle(which, said, now)) continue;
    if (outcome != receive_outcome::ended)
      log(log_level::warning,
          "soft0: connection manager: a peer process sent a malformed message; "
          "its connection is closed");
    return lost(which, now);
  }
}

bool manager::handle(const endpoint_ptr& which, const frame& said, time_point now) {
  switch (said.kind) {
    case frame_kind::reply:
      return reply_arrived(which, said);
    case frame_kind::lookup_reply:
      return lookup_answered(which, said);
    case frame_kind::rejection:
      return rejection_arrived(which, said, now);
    case frame_kind::disconnect:
      return end_arrived(which, now);
    case frame_kind::ready:
      if (which->active_ || (which->phase_ != phase::replied && which->phase_ != phase::connected &&
                             which->phase_ != phase::disconnecting))
        return false;
      if (which->phase_ != phase::replied) return true;  // known already
      become_established(which);
      return true;
    case frame_kind::disconnected:
      if (which->phase_ != phase::disconnecting) return false;
      end_connection(which, now);
      return true;
    case frame_kind::request:
    case frame_kind::lookup:
      return false;
  }
  return false;
}

void manager::become_established(const endpoint_ptr& which) {
  which->phase_ = phase::connected;
  set_deadline(*which, time_point::max());
  tell(which, event_kind::established, 0);
}

bool manager::reply_arrived(const endpoint_ptr& which, const frame& said) {
  if (which->phase_ != phase::requesting || which->datagram()) return false;
  which->remote_ = said.from;
  which->phase_ = phase::answered;
  set_deadline(*which, time_point::max());
  event what;
  what.kind = event_kind::connect_response;
  what.remote = said.from;
  what.data = said.data;
  what.data.length = private_limits::reply;
  tell(which, std::move(what));
  return true;
}

bool manager::lookup_answered(const endpoint_ptr& which, const frame& said) {
  if (which->phase_ != phase::requesting || !which->datagram()) return false;
  event what;
  const bool found = said.reason == lookup_status::found;
  what.kind = found ? event_kind::established : event_kind::unreachable;
  what.status = static_cast<int>(said.reason & 0xffU);
  what.remote = said.from;
  what.data = said.data;
  what.data.length = private_limits::lookup_reply;
  which->remote_ = said.from;
  finish(*which);
  tell(which, std::move(what));
  return true;
}

bool manager::rejection_arrived(const endpoint_ptr& which, const frame& said, time_point now) {
  if (which->datagram()) return false;
  switch (which->phase_) {
    case phase::connected:
    case phase::disconnecting:
      lost(which, now);
      return true;
    case phase::requesting:
    case phase::answered:
    case phase::replied:
    case phase::requested: {
      event what;
      what.kind = event_kind::rejected;
      what.status = static_cast<int>(said.reason & 0xffffU);
      what.data = said.data;
      what.data.length = private_limits::rejection;
      finish(*which);
      tell(which, std::move(what));
      return true;
    }
    default:
      return false;
  }
}

bool manager::end_arrived(const endpoint_ptr& which, time_point now) {
  switch (which->phase_) {
    case phase::answered:
    case phase::replied:
    case phase::connected:
    case phase::disconnecting:
      static_cast<void>(say(*which, frame_kind::disconnected));
      end_connection(which, now);
      return true;
    default:
      return false;
  }
}

// The peer's process, or its end of the conversation, is gone.
void manager::lost(const endpoint_ptr& which, time_point now) {
  const phase before = which->phase_;
  if (before == phase::connected || before == phase::disconnecting) {
    end_connection(which, now);
    return;
  }
  finish(*which);
  if (before == phase::requesting && which->datagram()) {
    tell(which, event_kind::unreachable, static_cast<int>(lookup_status::rejected));
  } else if (before == phase::requesting || before == phase::answered || before == phase::replied) {
    tell(which, event_kind::rejected, static_cast<int>(reject_reason::consumer));
  }
}

std::size_t manager::lose_peers(std::optional<pid_t> pid) {
  const lock guard(mutex_);
  std::size_t lost = 0;
  for (const auto& [number, each] : endpoints_) {
    if (!each->socket_) continue;
    const pid_t other = identify_peer(each->socket_.get()).pid;
    if (other == ::getpid() || (pid && other != *pid)) continue;
    ::shutdown(each->socket_.get(), SHUT_RDWR);  // which the thread finds
    ++lost;
  }
  return lost;
}

void manager::end_connection(const endpoint_ptr& which, time_point now) {
  tell(which, event_kind::disconnected, 0);
  finish(*which);
  which->phase_ = phase::timewait;
  set_deadline(*which, now + options_.timewait);
}

}  // namespace verbena::softdev::cm
