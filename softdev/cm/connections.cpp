// SPDX-License-Identifier: MIT
#include "softdev/cm/connections.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "softdev/ipc/local_socket.hpp"
#include "verbena/base/log.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev::cm {
namespace {

constexpr std::chrono::milliseconds room_interval{2};
// Between two requests to a host where no process listens: an attempt costs that host two messages,
// and a wait of this length does not matter to a program that waits for a listener.
constexpr std::chrono::milliseconds remote_listener_interval{10};

}  // namespace

connections::~connections() {
  close_all();
  // Breaks cycles of shared pointers: events refer to endpoints, and endpoints to their channels.
  for (auto& [number, each] : endpoints_) each->channel_->clear();
}

void connections::close_all() noexcept {
  for (auto& [number, each] : endpoints_) {
    each->socket_.reset();
    each->place_.own_socket.reset();
    each->place_.published.withdraw();
  }
}

endpoint_ptr connections::make(port_space space) {
  auto made = std::make_shared<endpoint>(space, next_number_++);
  constexpr std::uint32_t psn_mask = 0xff'ffff;
  made->local_.starting_psn = random_u32() & psn_mask;
  return made;
}

endpoint_ptr connections::create(const channel_ptr& events, port_space space) {
  const endpoint_ptr made = make(space);
  made->channel_ = events;
  endpoints_.emplace(made->place_.number, made);
  return made;
}

void connections::remove(endpoint& which) {
  finish(which);
  endpoints_.erase(which.place_.number);
}

void connections::tell(const endpoint_ptr& which, event what) {
  // Until the program has accepted a request, the request itself is its only event.
  if (!which->adopted_) return;
  what.about = which;
  which->channel_->push(std::move(what));
}

void connections::tell(const endpoint_ptr& which, event_kind kind, int status) {
  event what;
  what.kind = kind;
  what.status = status;
  tell(which, std::move(what));
}

send_outcome connections::say(const endpoint& which, frame_kind kind, std::uint32_t reason,
                              const private_data& data) {
  frame what;
  what.kind = kind;
  what.space = which.place_.space;
  what.source = which.place_.source;
  what.destination = which.destination_;
  what.from = which.local_;
  what.reason = reason;
  what.data = data;
  return send_frame(which.socket_.get(), what);
}

void connections::say_farewell(const endpoint& which) {
  if (!which.socket_) return;
  frame_kind kind = frame_kind::rejection;
  std::uint32_t reason = reject_reason::consumer;
  switch (which.phase_) {
    case phase::requesting:
      if (which.datagram()) return;
      reason = reject_reason::timeout;
      break;
    case phase::requested:
      if (which.datagram()) {
        kind = frame_kind::lookup_reply;
        reason = lookup_status::rejected;
      }
      break;
    case phase::answered:
    case phase::replied:
      break;
    case phase::connected:
      kind = frame_kind::disconnect;
      break;
    default:
      return;
  }
  static_cast<void>(say(which, kind, reason));
}

void connections::flush(const endpoint& which) {
  if (which.route_.conversation != 0)
    other_hosts_.flush(which.route_.conversation, std::chrono::steady_clock::now());
}

// Ends the conversation of an endpoint.
void connections::finish(endpoint& which) {
  watch_.unwatch(which.socket_.get());
  which.socket_.reset();
  set_deadline(which, time_point::max());
  which.phase_ = phase::closed;
}

// Calls of the program.

int connections::connect(const endpoint_ptr& which, const proposal& what) {
  if (which->phase_ != phase::route_resolved) return EINVAL;
  const auto limit = private_limit(which->datagram() ? frame_kind::lookup : frame_kind::request);
  if (what.data.length > limit) return EINVAL;
  set_local(*which, what.local);
  which->request_.data = what.data;
  which->active_ = true;
  const time_point now = std::chrono::steady_clock::now();
  which->request_.give_up_at = now + options_.answer_timeout;
  which->request_.patient_until = now + options_.listener_patience;
  const int failed = send_request(which, now);
  if (failed != 0) which->phase_ = phase::route_resolved;
  return failed;
}

// Keeps the PSN, which make() has chosen.
void connections::set_local(endpoint& which, const side& said) noexcept {
  const std::uint32_t psn = which.local_.starting_psn;
  which.local_ = said;
  which.local_.starting_psn = psn;
}

int connections::send_request(const endpoint_ptr& which, time_point now) {
  socket_or_error made = which->route_.to_another_host
                             ? other_hosts_.begin(which->route_.conversation)
                             : connect_to_port(which->place_.space, which->destination_);
  const bool refused = made.error == ECONNREFUSED || made.error == EACCES;
  // Waits for a listener, because a request over a network takes time. Programs that agree on a
  // port and then listen rely on that. Another host answers with a message: see
  // wait_for_listener().
  const bool early = made.error == ECONNREFUSED && now < which->request_.patient_until;
  if (made.error == EAGAIN || early) {
    which->phase_ = phase::waiting;
    set_deadline(*which, now + room_interval);
    return 0;
  }
  if (made.error != 0 && !refused) return made.error;
  if (!refused) {
    which->socket_ = std::move(made.socket);
    const auto kind = which->datagram() ? frame_kind::lookup : frame_kind::request;
    if (const int failed =
            watch_.watch(which->socket_.get(), {source_kind::endpoint, which->place_.number})) {
      which->socket_.reset();
      return failed;
    }
    if (say(*which, kind, 0, which->request_.data) == send_outcome::sent) {
      which->phase_ = phase::requesting;
      set_deadline(*which, which->request_.give_up_at);
      return 0;
    }
  }
  finish(*which);
  if (which->datagram()) {
    tell(which, event_kind::unreachable, static_cast<int>(lookup_status::no_listener));
  } else {
    tell(which, event_kind::rejected, static_cast<int>(reject_reason::no_listener));
  }
  return 0;
}

/// Handles the answer that no process listens, while that may change: sends another request after a
/// pause. It is a new request with another communication ID, because the peer may repeat its answer
/// to the first one. Returns false if the answer has to be reported.
bool connections::wait_for_listener(const endpoint_ptr& which, time_point now) {
  if (which->phase_ != phase::requesting || now >= which->request_.patient_until) return false;
  finish(*which);
  which->phase_ = phase::waiting;
  const auto pause = which->route_.to_another_host ? remote_listener_interval : room_interval;
  set_deadline(*which, std::min<time_point>(now + pause, which->request_.patient_until));
  return true;
}

int connections::accept(const endpoint_ptr& which, const proposal& what) {
  if (which->phase_ != phase::requested) return EINVAL;
  const auto kind = which->datagram() ? frame_kind::lookup_reply : frame_kind::reply;
  if (what.data.length > private_limit(kind)) return EINVAL;
  set_local(*which, what.local);
  which->adopted_ = true;
  const bool sent = say(*which, kind, lookup_status::found, what.data) == send_outcome::sent;
  if (!sent || which->datagram()) {
    finish(*which);
    return sent ? 0 : EINVAL;
  }
  which->phase_ = phase::replied;
  set_deadline(*which, std::chrono::steady_clock::now() + options_.ready_timeout);
  return 0;
}

int connections::establish(const endpoint_ptr& which) {
  if (which->phase_ != phase::answered) return EINVAL;
  if (say(*which, frame_kind::ready) != send_outcome::sent) return EINVAL;
  which->phase_ = phase::connected;
  return 0;
}

int connections::reject(const endpoint_ptr& which, std::uint32_t reason, const private_data& data) {
  if (which->phase_ != phase::requested && which->phase_ != phase::answered) return EINVAL;
  if (which->datagram()) {
    if (data.length > private_limits::lookup_reply) return EINVAL;
    static_cast<void>(say(*which, frame_kind::lookup_reply, lookup_status::rejected, data));
  } else {
    if (data.length > private_limits::rejection) return EINVAL;
    static_cast<void>(say(*which, frame_kind::rejection, reason, data));
  }
  finish(*which);
  return 0;
}

int connections::disconnect(const endpoint_ptr& which) {
  const time_point now = std::chrono::steady_clock::now();
  switch (which->phase_) {
    case phase::connected:
    case phase::replied:
    case phase::answered:
      if (say(*which, frame_kind::disconnect) == send_outcome::sent) {
        which->phase_ = phase::disconnecting;
        set_deadline(*which, now + options_.disconnect_timeout);
      } else {
        lost(which, now);
      }
      return 0;
    case phase::waiting:
    case phase::requesting:
    case phase::requested:
    case phase::disconnecting:
    case phase::timewait:
    case phase::closed:
      return 0;
    default:
      return EINVAL;
  }
}

int connections::note_established(const endpoint_ptr& which) {
  if (which->phase_ != phase::replied) return which->phase_ == phase::connected ? 0 : EINVAL;
  become_established(which);
  return 0;
}

// Deadlines.

void connections::set_deadline(endpoint& which, time_point when) {
  if (which.deadline_ != time_point::max())
    deadlines_.erase({which.deadline_, which.place_.number});
  which.deadline_ = when;
  if (when != time_point::max()) deadlines_.emplace(when, which.place_.number);
}

void connections::expire(time_point now) {
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
}

void connections::expire(const endpoint_ptr& which, time_point now) {
  switch (which->phase_) {
    case phase::waiting:
      if (now < which->request_.give_up_at) {
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

void connections::give_up(const endpoint_ptr& which) {
  if (which->socket_ && !which->datagram())
    static_cast<void>(say(*which, frame_kind::rejection, reject_reason::timeout));
  finish(*which);
  tell(which, event_kind::unreachable, -ETIMEDOUT);
}

// Frames of peers.

void connections::request_arrived(unique_fd from, std::uint32_t port_key, const frame& asked) {
  const bool lookup = asked.kind == frame_kind::lookup;
  if (!lookup && asked.kind != frame_kind::request) return;
  const port_holder* const found = ports_.listener_for(port_key, asked.destination);
  const endpoint_ptr listener = found != nullptr ? endpoints_.at(found->number) : nullptr;
  const bool fits =
      listener != nullptr && listener->space() == asked.space && listener->datagram() == lookup;
  if (!fits) return send_refusal(from.get(), asked, reject_reason::no_listener);
  if (listener->backlog_.waiting >= listener->backlog_.limit)
    return send_refusal(from.get(), asked, reject_reason::consumer);
  const endpoint_ptr made = make(asked.space);
  made->phase_ = phase::requested;
  made->adopted_ = false;
  made->channel_ = listener->channel_;
  made->place_.source = asked.destination;
  made->destination_ = asked.source;
  made->remote_ = asked.from;
  made->route_.conversation = asked.conversation;
  made->socket_ = std::move(from);
  if (watch_.watch(made->socket_.get(), {source_kind::endpoint, made->place_.number}) != 0) return;
  endpoints_.emplace(made->place_.number, made);
  event what;
  what.kind = event_kind::connect_request;
  what.about = made;
  what.listener = listener;
  what.remote = asked.from;
  what.data = asked.data;
  what.data.length = private_limit(asked.kind);  // reported with its padding
  ++listener->backlog_.waiting;
  listener->channel_->push(std::move(what));
}

void connections::read(std::uint64_t number, time_point now) {
  const auto found = endpoints_.find(number);
  if (found == endpoints_.end()) return;
  const endpoint_ptr which = found->second;
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

void connections::dismiss(std::uint64_t number) noexcept {
  if (const auto found = endpoints_.find(number); found != endpoints_.end())
    found->second->place_.published.dismiss();
}

bool connections::handle(const endpoint_ptr& which, const frame& said, time_point now) {
  switch (said.kind) {
    case frame_kind::reply:
      return reply_arrived(which, said);
    case frame_kind::lookup_reply:
      return lookup_answered(which, said, now);
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
    case frame_kind::remote_request:
    case frame_kind::remote_lookup:
      return false;
  }
  return false;
}

void connections::become_established(const endpoint_ptr& which) {
  which->phase_ = phase::connected;
  set_deadline(*which, time_point::max());
  tell(which, event_kind::established, 0);
}

bool connections::reply_arrived(const endpoint_ptr& which, const frame& said) {
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

bool connections::lookup_answered(const endpoint_ptr& which, const frame& said, time_point now) {
  if (which->phase_ != phase::requesting || !which->datagram()) return false;
  if (said.reason == lookup_status::no_listener && wait_for_listener(which, now)) return true;
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

bool connections::rejection_arrived(const endpoint_ptr& which, const frame& said, time_point now) {
  if (which->datagram()) return false;
  if (said.reason == reject_reason::no_listener && wait_for_listener(which, now)) return true;
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

bool connections::end_arrived(const endpoint_ptr& which, time_point now) {
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

// Handles the exit of the peer's process, or the end of its endpoint without a message.
void connections::lost(const endpoint_ptr& which, time_point now) {
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

std::size_t connections::lose_peers(std::optional<pid_t> pid) {
  std::size_t lost = 0;
  for (const auto& [number, each] : endpoints_) {
    if (!each->socket_) continue;
    const pid_t other = identify_peer(each->socket_.get()).pid;
    if (other == ::getpid() || (pid && other != *pid)) continue;
    ::shutdown(each->socket_.get(), SHUT_RDWR);  // the thread detects it
    ++lost;
  }
  return lost;
}

void connections::end_connection(const endpoint_ptr& which, time_point now) {
  tell(which, event_kind::disconnected, 0);
  finish(*which);
  which->phase_ = phase::timewait;
  set_deadline(*which, now + options_.timewait);
}

}  // namespace verbena::softdev::cm
