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

constexpr std::chrono::milliseconds backlog_retry_interval{2};
// Between two requests to a host where no process listens: an attempt costs that host two messages,
// and a wait of this length does not matter to a program that waits for a listener.
constexpr std::chrono::milliseconds listener_retry_interval{10};

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

void connections::remove(endpoint& ep) {
  finish(ep);
  endpoints_.erase(ep.place_.number);
}

void connections::report(const endpoint_ptr& ep, event what) {
  // Until the program has accepted a request, the request itself is its only event.
  if (!ep->adopted_) return;
  what.about = ep;
  ep->channel_->push(std::move(what));
}

void connections::report(const endpoint_ptr& ep, event_kind kind, int status) {
  event what;
  what.kind = kind;
  what.status = status;
  report(ep, std::move(what));
}

send_outcome connections::send(const endpoint& ep, frame_kind kind, std::uint32_t reason,
                               const private_data& data) {
  frame what;
  what.kind = kind;
  what.space = ep.place_.space;
  what.source = ep.place_.source;
  what.destination = ep.destination_;
  what.from = ep.local_;
  what.reason = reason;
  what.data = data;
  return send_frame(ep.socket_.get(), what);
}

void connections::send_final_message(const endpoint& ep) {
  if (!ep.socket_) return;
  frame_kind kind = frame_kind::rejection;
  std::uint32_t reason = reject_reason::consumer;
  switch (ep.phase_) {
    case phase::requesting:
      if (ep.datagram()) return;
      reason = reject_reason::timeout;
      break;
    case phase::requested:
      if (ep.datagram()) {
        kind = frame_kind::sidr_reply;
        reason = sidr_status::rejected;
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
  static_cast<void>(send(ep, kind, reason));
}

void connections::flush(const endpoint& ep) {
  if (ep.route_.communication_id != 0)
    other_hosts_.flush(ep.route_.communication_id, options_.clock());
}

// Ends the connection or request of an endpoint.
void connections::finish(endpoint& ep) {
  watch_.unwatch(ep.socket_.get());
  ep.socket_.reset();
  set_deadline(ep, time_point::max());
  ep.phase_ = phase::closed;
}

// Calls of the program.

int connections::connect(const endpoint_ptr& ep, const proposal& what) {
  if (ep->phase_ != phase::route_resolved) return EINVAL;
  const auto limit = private_limit(ep->datagram() ? frame_kind::sidr_request : frame_kind::request);
  if (what.data.length > limit) return EINVAL;
  set_local(*ep, what.local);
  ep->request_.data = what.data;
  ep->active_ = true;
  const time_point now = options_.clock();
  ep->request_.give_up_at = now + options_.answer_timeout;
  ep->request_.retry_until = now + options_.listener_timeout;
  const int failed = send_request(ep, now);
  if (failed != 0) ep->phase_ = phase::route_resolved;
  return failed;
}

// Keeps the PSN, which make() has chosen.
void connections::set_local(endpoint& ep, const side& wanted) noexcept {
  const std::uint32_t psn = ep.local_.starting_psn;
  ep.local_ = wanted;
  ep.local_.starting_psn = psn;
}

int connections::send_request(const endpoint_ptr& ep, time_point now) {
  socket_or_error made = ep->route_.to_another_host
                             ? other_hosts_.begin(ep->route_.communication_id)
                             : connect_to_port(ep->place_.space, ep->destination_);
  const bool refused = made.error == ECONNREFUSED || made.error == EACCES;
  // Waits for a listener, because a request over a network takes time. Programs that agree on a
  // port and then listen rely on that. Another host answers with a message: see
  // wait_for_listener().
  const bool early = made.error == ECONNREFUSED && now < ep->request_.retry_until;
  if (made.error == EAGAIN || early) {
    ep->phase_ = phase::waiting;
    set_deadline(*ep, now + backlog_retry_interval);
    return 0;
  }
  if (made.error != 0 && !refused) return made.error;
  if (!refused) {
    ep->socket_ = std::move(made.socket);
    const auto kind = ep->datagram() ? frame_kind::sidr_request : frame_kind::request;
    if (const int failed =
            watch_.watch(ep->socket_.get(), {source_kind::endpoint, ep->place_.number})) {
      ep->socket_.reset();
      return failed;
    }
    if (send(*ep, kind, 0, ep->request_.data) == send_outcome::sent) {
      ep->phase_ = phase::requesting;
      set_deadline(*ep, ep->request_.give_up_at);
      return 0;
    }
  }
  finish(*ep);
  if (ep->datagram()) {
    report(ep, event_kind::unreachable, static_cast<int>(sidr_status::no_listener));
  } else {
    report(ep, event_kind::rejected, static_cast<int>(reject_reason::no_listener));
  }
  return 0;
}

/// Handles the answer that no process listens, while that may change: sends another request after a
/// pause. It is a new request with another communication ID, because the peer may repeat its answer
/// to the first one. Returns false if the answer has to be reported.
bool connections::wait_for_listener(const endpoint_ptr& ep, time_point now) {
  if (ep->phase_ != phase::requesting || now >= ep->request_.retry_until) return false;
  finish(*ep);
  ep->phase_ = phase::waiting;
  const auto pause = ep->route_.to_another_host ? listener_retry_interval : backlog_retry_interval;
  set_deadline(*ep, std::min<time_point>(now + pause, ep->request_.retry_until));
  return true;
}

int connections::accept(const endpoint_ptr& ep, const proposal& what) {
  if (ep->phase_ != phase::requested) return EINVAL;
  const auto kind = ep->datagram() ? frame_kind::sidr_reply : frame_kind::reply;
  if (what.data.length > private_limit(kind)) return EINVAL;
  set_local(*ep, what.local);
  ep->adopted_ = true;
  const bool sent = send(*ep, kind, sidr_status::found, what.data) == send_outcome::sent;
  if (!sent || ep->datagram()) {
    finish(*ep);
    return sent ? 0 : EINVAL;
  }
  ep->phase_ = phase::replied;
  set_deadline(*ep, options_.clock() + options_.ready_timeout);
  return 0;
}

int connections::establish(const endpoint_ptr& ep) {
  if (ep->phase_ != phase::answered) return EINVAL;
  if (send(*ep, frame_kind::ready) != send_outcome::sent) return EINVAL;
  ep->phase_ = phase::connected;
  return 0;
}

int connections::reject(const endpoint_ptr& ep, std::uint32_t reason, const private_data& data) {
  if (ep->phase_ != phase::requested && ep->phase_ != phase::answered) return EINVAL;
  if (ep->datagram()) {
    if (data.length > private_limits::sidr_reply) return EINVAL;
    static_cast<void>(send(*ep, frame_kind::sidr_reply, sidr_status::rejected, data));
  } else {
    if (data.length > private_limits::rejection) return EINVAL;
    static_cast<void>(send(*ep, frame_kind::rejection, reason, data));
  }
  finish(*ep);
  return 0;
}

int connections::disconnect(const endpoint_ptr& ep) {
  const time_point now = options_.clock();
  switch (ep->phase_) {
    case phase::connected:
    case phase::replied:
    case phase::answered:
      if (send(*ep, frame_kind::disconnect) == send_outcome::sent) {
        ep->phase_ = phase::disconnecting;
        set_deadline(*ep, now + options_.disconnect_timeout);
      } else {
        lost(ep, now);
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

int connections::note_established(const endpoint_ptr& ep) {
  if (ep->phase_ != phase::replied) return ep->phase_ == phase::connected ? 0 : EINVAL;
  if (ep->route_.communication_id != 0)
    other_hosts_.note_established(ep->route_.communication_id, options_.clock());
  become_established(ep);
  return 0;
}

// Deadlines.

void connections::set_deadline(endpoint& ep, time_point when) {
  if (ep.deadline_ != time_point::max()) deadlines_.erase({ep.deadline_, ep.place_.number});
  ep.deadline_ = when;
  if (when != time_point::max()) deadlines_.emplace(when, ep.place_.number);
}

void connections::expire(time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto found = endpoints_.find(deadlines_.begin()->second);
    if (found == endpoints_.end()) {
      deadlines_.erase(deadlines_.begin());
      continue;
    }
    const endpoint_ptr ep = found->second;
    set_deadline(*ep, time_point::max());
    expire(ep, now);
  }
}

void connections::expire(const endpoint_ptr& ep, time_point now) {
  switch (ep->phase_) {
    case phase::waiting:
      if (now < ep->request_.give_up_at) {
        const int failed = send_request(ep, now);
        if (failed == 0) return;
        if (failed == EMFILE || failed == ENFILE || failed == ENOMEM) {
          constexpr std::chrono::milliseconds pause(20);
          return set_deadline(*ep, now + pause);
        }
      }
      give_up(ep);
      return;
    case phase::requesting:
    case phase::replied:
      give_up(ep);
      return;
    case phase::disconnecting:
      end_connection(ep, now);
      return;
    case phase::timewait:
      finish(*ep);
      report(ep, event_kind::timewait_exit, 0);
      return;
    default:
      return;
  }
}

void connections::give_up(const endpoint_ptr& ep) {
  if (ep->socket_ && !ep->datagram())
    static_cast<void>(send(*ep, frame_kind::rejection, reject_reason::timeout));
  finish(*ep);
  report(ep, event_kind::unreachable, -ETIMEDOUT);
}

// Frames of peers.

void connections::request_arrived(unique_fd from, std::uint32_t port_key, const frame& request) {
  const bool is_sidr = request.kind == frame_kind::sidr_request;
  if (!is_sidr && request.kind != frame_kind::request) return;
  const port_holder* const found = ports_.listener_for(port_key, request.destination);
  const endpoint_ptr listener = found != nullptr ? endpoints_.at(found->number) : nullptr;
  const bool fits =
      listener != nullptr && listener->space() == request.space && listener->datagram() == is_sidr;
  if (!fits) return send_rejection(from.get(), request, reject_reason::no_listener);
  if (listener->backlog_.waiting >= listener->backlog_.limit)
    return send_rejection(from.get(), request, reject_reason::consumer);
  const endpoint_ptr made = make(request.space);
  made->phase_ = phase::requested;
  made->adopted_ = false;
  made->channel_ = listener->channel_;
  made->place_.source = request.destination;
  made->destination_ = request.source;
  made->remote_ = request.from;
  made->route_.communication_id = request.communication_id;
  made->socket_ = std::move(from);
  if (watch_.watch(made->socket_.get(), {source_kind::endpoint, made->place_.number}) != 0) return;
  endpoints_.emplace(made->place_.number, made);
  event what;
  what.kind = event_kind::connect_request;
  what.about = made;
  what.listener = listener;
  what.remote = request.from;
  what.data = request.data;
  what.data.length = private_limit(request.kind);  // reported with its padding
  ++listener->backlog_.waiting;
  listener->channel_->push(std::move(what));
}

void connections::read(std::uint64_t number, time_point now) {
  const auto found = endpoints_.find(number);
  if (found == endpoints_.end()) return;
  const endpoint_ptr ep = found->second;
  for (int turn = 0; turn < frames_per_turn && ep->socket_; ++turn) {
    frame received;
    const receive_outcome outcome = receive_frame(ep->socket_.get(), received);
    if (outcome == receive_outcome::nothing) return;
    if (outcome == receive_outcome::received && handle(ep, received, now)) continue;
    if (outcome != receive_outcome::ended)
      log(log_level::warning,
          "soft0: connection manager: a peer process sent a malformed message; "
          "its connection is closed");
    return lost(ep, now);
  }
}

void connections::close_probes(std::uint64_t number) noexcept {
  if (const auto found = endpoints_.find(number); found != endpoints_.end())
    found->second->place_.published.close_probes();
}

bool connections::handle(const endpoint_ptr& ep, const frame& received, time_point now) {
  switch (received.kind) {
    case frame_kind::reply:
      return reply_arrived(ep, received);
    case frame_kind::sidr_reply:
      return sidr_reply_arrived(ep, received, now);
    case frame_kind::rejection:
      return rejection_arrived(ep, received, now);
    case frame_kind::disconnect:
      return disconnect_arrived(ep, now);
    case frame_kind::ready:
      if (ep->active_ || (ep->phase_ != phase::replied && ep->phase_ != phase::connected &&
                          ep->phase_ != phase::disconnecting))
        return false;
      if (ep->phase_ != phase::replied) return true;  // known already
      become_established(ep);
      return true;
    case frame_kind::disconnected:
      if (ep->phase_ != phase::disconnecting) return false;
      end_connection(ep, now);
      return true;
    case frame_kind::request:
    case frame_kind::sidr_request:
    case frame_kind::remote_request:
    case frame_kind::remote_sidr_request:
    case frame_kind::remote_rejection:
      return false;
  }
  return false;
}

void connections::become_established(const endpoint_ptr& ep) {
  ep->phase_ = phase::connected;
  set_deadline(*ep, time_point::max());
  report(ep, event_kind::established, 0);
}

bool connections::reply_arrived(const endpoint_ptr& ep, const frame& received) {
  if (ep->phase_ != phase::requesting || ep->datagram()) return false;
  ep->remote_ = received.from;
  ep->phase_ = phase::answered;
  set_deadline(*ep, time_point::max());
  event what;
  what.kind = event_kind::connect_response;
  what.remote = received.from;
  what.data = received.data;
  what.data.length = private_limits::reply;
  report(ep, std::move(what));
  return true;
}

bool connections::sidr_reply_arrived(const endpoint_ptr& ep, const frame& received,
                                     time_point now) {
  if (ep->phase_ != phase::requesting || !ep->datagram()) return false;
  if (received.reason == sidr_status::no_listener && wait_for_listener(ep, now)) return true;
  event what;
  const bool found = received.reason == sidr_status::found;
  what.kind = found ? event_kind::established : event_kind::unreachable;
  what.status = static_cast<int>(received.reason & 0xffU);
  what.remote = received.from;
  what.data = received.data;
  what.data.length = private_limits::sidr_reply;
  ep->remote_ = received.from;
  finish(*ep);
  report(ep, std::move(what));
  return true;
}

bool connections::rejection_arrived(const endpoint_ptr& ep, const frame& received, time_point now) {
  if (ep->datagram()) return false;
  if (received.reason == reject_reason::no_listener && wait_for_listener(ep, now)) return true;
  switch (ep->phase_) {
    case phase::connected:
    case phase::disconnecting:
      lost(ep, now);
      return true;
    case phase::requesting:
    case phase::answered:
    case phase::replied:
    case phase::requested: {
      event what;
      what.kind = event_kind::rejected;
      what.status = static_cast<int>(received.reason & 0xffffU);
      what.data = received.data;
      what.data.length = private_limits::rejection;
      finish(*ep);
      report(ep, std::move(what));
      return true;
    }
    default:
      return false;
  }
}

bool connections::disconnect_arrived(const endpoint_ptr& ep, time_point now) {
  switch (ep->phase_) {
    case phase::answered:
    case phase::replied:
    case phase::connected:
    case phase::disconnecting:
      static_cast<void>(send(*ep, frame_kind::disconnected));
      end_connection(ep, now);
      return true;
    default:
      return false;
  }
}

// Handles the exit of the peer's process, or the end of its endpoint without a message.
void connections::lost(const endpoint_ptr& ep, time_point now) {
  const phase before = ep->phase_;
  if (before == phase::connected || before == phase::disconnecting) {
    end_connection(ep, now);
    return;
  }
  finish(*ep);
  if (before == phase::requesting && ep->datagram()) {
    report(ep, event_kind::unreachable, static_cast<int>(sidr_status::rejected));
  } else if (before == phase::requesting || before == phase::answered || before == phase::replied) {
    report(ep, event_kind::rejected, static_cast<int>(reject_reason::consumer));
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

void connections::end_connection(const endpoint_ptr& ep, time_point now) {
  report(ep, event_kind::disconnected, 0);
  finish(*ep);
  ep->phase_ = phase::timewait;
  set_deadline(*ep, now + options_.timewait);
}

}  // namespace verbena::softdev::cm
