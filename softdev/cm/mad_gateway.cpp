// SPDX-License-Identifier: MIT
#include "softdev/cm/mad_gateway.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <tuple>

#include "softdev/cm/port_names.hpp"
#include "softdev/core/process_slot.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev::cm {
namespace {

using std::chrono::milliseconds;

constexpr std::uint8_t service_timeout = 20;  // 4.3 s
// Peers repeat a message after at most 9 s and then after 4 s, and two repetitions may be lost.
constexpr milliseconds remembered{20'000};

milliseconds duration_of(std::uint8_t time) noexcept {
  constexpr unsigned longest = 24;  // 69 s
  const std::uint64_t ns = std::uint64_t{4096} << std::min<unsigned>(time, longest);
  return milliseconds(ns / 1'000'000);
}

/// Returns false for 0, the number in messages of programs without a queue pair, and for the queue
/// pairs of the management.
bool is_queue_pair_of_program(std::uint32_t qpn) noexcept { return qpn > 1; }

}  // namespace

// The table of exchanges.

void mad_gateway::close_all() noexcept {
  for (auto& [number, each] : exchanges_) each.socket.reset();
}

std::uint32_t mad_gateway::unused_id() const {
  const std::uint32_t slot = carrier_->identity().process_slot;
  while (true) {
    const std::uint32_t qpn = first_number_of(slot) + random_u32() % count_of_numbers(slot);
    const std::uint32_t id = qpn << low_bits_of_communication_id |
                             (random_u32() & ((1U << low_bits_of_communication_id) - 1));
    if (id != 0 && !by_own_id_.contains(id)) return id;
  }
}

mad_gateway::mad_exchange* mad_gateway::make() {
  const std::uint64_t number = next_number_++;
  mad_exchange& made = exchanges_[number];
  made.number = number;
  made.own_id = unused_id();
  by_own_id_[made.own_id] = number;
  return &made;
}

mad_gateway::mad_exchange* mad_gateway::find(std::uint32_t own_id) noexcept {
  const auto known = by_own_id_.find(own_id);
  return known != by_own_id_.end() ? &exchanges_.at(known->second) : nullptr;
}

int mad_gateway::connect_endpoint(mad_exchange& exchange, unique_fd& other) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return errno;
  exchange.socket = unique_fd(ends[0]);
  other = unique_fd(ends[1]);
  return watch_.watch(exchange.socket.get(), {source_kind::remote, exchange.number});
}

void mad_gateway::close_socket(mad_exchange& exchange) noexcept {
  watch_.unwatch(exchange.socket.get());
  exchange.socket.reset();
}

void mad_gateway::enter(mad_exchange& exchange, exchange_state next) {
  const auto is_half_open = [](exchange_state state) {
    return state == exchange_state::requested || state == exchange_state::replied;
  };
  if (is_half_open(exchange.state)) --half_open_;
  if (is_half_open(next)) ++half_open_;
  if (!exchange.active && exchange.state == exchange_state::ended) --ended_passive_;
  if (!exchange.active && next == exchange_state::ended) ++ended_passive_;
  if (exchange.state == exchange_state::requested) exchange.expires_at = time_point::max();
  const peer_id remote{exchange.peer, exchange.remote_qpn};
  if (exchange.state == exchange_state::connected) {
    const auto known = by_remote_qpn_.find(remote);
    if (known != by_remote_qpn_.end() && known->second == exchange.number)
      by_remote_qpn_.erase(known);
  }
  if (next == exchange_state::connected && is_queue_pair_of_program(exchange.remote_qpn))
    by_remote_qpn_[remote] = exchange.number;
  exchange.state = next;
}

void mad_gateway::forget(mad_exchange& exchange) {
  close_socket(exchange);
  enter(exchange, exchange_state::gone);
  exchange.expires_at = time_point::max();
  set_deadline(exchange, time_point::max());
  if (!exchange.active) by_peer_.erase({exchange.peer, exchange.remote_id});
  by_own_id_.erase(exchange.own_id);
  exchanges_.erase(exchange.number);
}

void mad_gateway::set_deadline(mad_exchange& exchange, time_point when) {
  when = std::min(when, exchange.expires_at);
  if (exchange.deadline != time_point::max())
    deadlines_.erase({exchange.deadline, exchange.number});
  exchange.deadline = when;
  if (when != time_point::max()) deadlines_.emplace(when, exchange.number);
}

void mad_gateway::expire(time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    mad_exchange& exchange = exchanges_.at(deadlines_.begin()->second);
    if (exchange.expires_at <= now) {
      if (exchange.state != exchange_state::requested) {
        forget(exchange);
        continue;
      }
      // The peer no longer repeats its request.
      if (!exchange.is_sidr) forward(exchange, frame_kind::rejection, reject_reason::timeout);
      finish(exchange, now);
      continue;
    }
    repeat(exchange);
    exchange.interval = std::min(2 * exchange.interval, options_.longest_repeat);
    set_deadline(exchange, now + exchange.interval);
  }
}

// Messages to the peer.

mad mad_gateway::make_mad(const mad_exchange& exchange, mad_kind kind) const {
  mad out{.kind = kind,
          .transaction = exchange.transaction,
          .sender_id = exchange.own_id,
          .receiver_id = exchange.remote_id,
          .guid = carrier_->identity().guid};
  if (exchange.is_sidr && !exchange.active) out.sender_id = exchange.remote_id;
  out.content.space = exchange.request.space;
  out.content.source = exchange.request.source;
  out.content.destination = exchange.request.destination;
  return out;
}

/// Sends a message. Repeats it after `interval`; if 0, only when the peer repeats its own message.
void mad_gateway::send_message(mad_exchange& exchange, const mad& what, milliseconds interval,
                               time_point now) {
  write_mad(what, exchange.last_message);
  exchange.has_last_message = true;
  exchange.interval = interval;
  repeat(exchange);
  set_deadline(exchange, interval.count() != 0 ? now + interval : time_point::max());
}

void mad_gateway::repeat(const mad_exchange& exchange) noexcept {
  if (exchange.has_last_message) carrier_->send(exchange.own, exchange.peer, exchange.last_message);
}

/// Ends an exchange. Repeated messages of the peer are still answered.
void mad_gateway::finish(mad_exchange& exchange, time_point now) {
  close_socket(exchange);
  enter(exchange, exchange_state::ended);
  exchange.interval = {};
  remember(exchange, now);
  if (ended_passive_ > options_.max_ended) forget_oldest_ended();
}

void mad_gateway::forget_oldest_ended() {
  for (const auto& [when, number] : deadlines_) {
    mad_exchange& each = exchanges_.at(number);
    if (!each.active && each.state == exchange_state::ended) return forget(each);
  }
}

void mad_gateway::remember(mad_exchange& exchange, time_point now) {
  exchange.expires_at = now + remembered;
  set_deadline(exchange, time_point::max());
}

// Frames of the endpoint.

socket_or_error mad_gateway::begin(std::uint32_t& communication_id) {
  socket_or_error made;
  mad_exchange& exchange = *make();
  communication_id = exchange.own_id;
  exchange.active = true;
  made.error = connect_endpoint(exchange, made.socket);
  if (made.error == 0) return made;
  forget(exchange);
  made.socket.reset();
  return made;
}

void mad_gateway::read(std::uint64_t number, time_point now) {
  for (int turn = 0; turn < frames_per_turn; ++turn) {
    const auto found = exchanges_.find(number);
    if (found == exchanges_.end() || !found->second.socket) return;
    mad_exchange& exchange = found->second;
    frame received;
    switch (receive_frame(exchange.socket.get(), received)) {
      case receive_outcome::nothing:
        return;
      case receive_outcome::received:
        handle(exchange, received, now);
        break;
      default:
        return endpoint_closed(exchange, now);
    }
  }
}

void mad_gateway::flush(std::uint32_t communication_id, time_point now) {
  if (const mad_exchange* const exchange = find(communication_id); exchange != nullptr)
    read(exchange->number, now);
}

void mad_gateway::handle(mad_exchange& exchange, const frame& received, time_point now) {
  switch (received.kind) {
    case frame_kind::request:
    case frame_kind::sidr_request: {
      if (exchange.state != exchange_state::begun) return;
      exchange.is_sidr = received.kind == frame_kind::sidr_request;
      exchange.request = received;
      exchange.own = with_port(received.source, 0);
      exchange.peer = with_port(received.destination, 0);
      exchange.own_qpn = received.from.queue_pair;
      exchange.transaction = std::uint64_t{random_u32()} << 32U | exchange.own_id;
      enter(exchange, exchange_state::requesting);
      mad what = make_mad(exchange, exchange.is_sidr ? mad_kind::sidr_request : mad_kind::request);
      what.content = received;
      return send_message(exchange, what, options_.first_repeat, now);
    }
    case frame_kind::reply: {
      if (exchange.state != exchange_state::requested) return;
      enter(exchange, exchange_state::replied);
      exchange.own_qpn = received.from.queue_pair;
      mad what = make_mad(exchange, mad_kind::reply);
      what.content.from = received.from;
      what.content.data = received.data;
      return send_message(exchange, what, options_.first_repeat, now);
    }
    case frame_kind::sidr_reply: {
      if (exchange.state != exchange_state::requested) return;
      mad what = make_mad(exchange, mad_kind::sidr_reply);
      what.content.from = received.from;
      what.content.reason = received.reason;
      what.content.data = received.data;
      send_message(exchange, what, {}, now);
      return finish(exchange, now);
    }
    case frame_kind::ready:
      if (exchange.state != exchange_state::answered) return;
      enter(exchange, exchange_state::connected);
      return send_message(exchange, make_mad(exchange, mad_kind::ready), {}, now);
    case frame_kind::rejection:
      return reject(exchange, received, now);
    case frame_kind::disconnect:
      return send_disconnect(exchange, now);
    case frame_kind::disconnected:
      // In `disconnecting` the endpoint confirms the end of a stale connection; the peer does not.
      if (exchange.state == exchange_state::ended ||
          exchange.state == exchange_state::disconnecting)
        return;
      send_message(exchange, make_mad(exchange, mad_kind::disconnected), {}, now);
      return finish(exchange, now);
    case frame_kind::remote_request:
    case frame_kind::remote_sidr_request:
    case frame_kind::remote_rejection:
      return;
  }
}

void mad_gateway::reject(mad_exchange& exchange, const frame& received, time_point now) {
  if (exchange.state == exchange_state::begun || exchange.state == exchange_state::ended) return;
  if (exchange.state == exchange_state::connected ||
      exchange.state == exchange_state::disconnecting)
    return send_disconnect(exchange, now);
  mad what = make_mad(exchange, mad_kind::rejection);
  const bool about_reply = exchange.state == exchange_state::answered;
  what.subject = about_reply ? mad_subject::reply : mad_subject::request;
  if (exchange.state == exchange_state::replied) what.subject = mad_subject::other;
  what.content.reason = received.reason;
  what.content.data = received.data;
  send_message(exchange, what, {}, now);
  exchange.rejected = true;
  finish(exchange, now);
}

void mad_gateway::reject(mad_exchange& exchange, std::uint32_t reason, time_point now) {
  frame rejection;
  rejection.reason = reason;
  reject(exchange, rejection, now);
}

void mad_gateway::send_disconnect(mad_exchange& exchange, time_point now) {
  if (exchange.state != exchange_state::answered && exchange.state != exchange_state::replied &&
      exchange.state != exchange_state::connected)
    return;
  enter(exchange, exchange_state::disconnecting);
  mad what = make_mad(exchange, mad_kind::disconnect);
  what.content.from.queue_pair = exchange.remote_qpn;
  exchange.expires_at = now + options_.disconnect_timeout;
  send_message(exchange, what, options_.first_repeat, now);
}

/// Ends the connection of this process to a queue pair from which another request or reply arrives:
/// the peer has lost that connection without a message, for example because its process was killed
/// (IBTA 12.9.8.3.1). Returns whether there was such a connection.
bool mad_gateway::end_stale_connection(const address& peer, std::uint32_t qpn, time_point now) {
  const auto known = by_remote_qpn_.find({peer, qpn});
  if (known == by_remote_qpn_.end()) return false;
  mad_exchange& stale = exchanges_.at(known->second);
  send_disconnect(stale, now);
  forward(stale, frame_kind::disconnect);
  return true;
}

/// Handles an endpoint that has closed its socket without a last frame.
void mad_gateway::endpoint_closed(mad_exchange& exchange, time_point now) {
  close_socket(exchange);
  switch (exchange.state) {
    case exchange_state::begun:
      return forget(exchange);
    case exchange_state::requesting:
      if (exchange.is_sidr) return forget(exchange);
      return reject(exchange, reject_reason::timeout, now);
    case exchange_state::requested: {
      if (!exchange.is_sidr) return reject(exchange, reject_reason::consumer, now);
      frame reply;
      reply.kind = frame_kind::sidr_reply;
      reply.reason = sidr_status::rejected;
      return handle(exchange, reply, now);
    }
    case exchange_state::answered:
      return reject(exchange, reject_reason::consumer, now);
    case exchange_state::replied:
    case exchange_state::connected:
      return send_disconnect(exchange, now);
    case exchange_state::disconnecting:
    case exchange_state::ended:
    case exchange_state::gone:
      return;
  }
}

// Messages of the peer.

bool mad_gateway::request_given_up(const address& peer, const mad& rejection) {
  return end_given_up(peer, rejection.sender_id, rejection.content);
}

/// Ends the request `remote_id` of a peer. Returns false if it has no such unanswered request.
bool mad_gateway::end_given_up(const address& peer, std::uint32_t remote_id,
                               const frame& rejection) {
  const auto known = by_peer_.find({with_port(peer, 0), remote_id});
  if (known == by_peer_.end()) return false;
  mad_exchange& exchange = exchanges_.at(known->second);
  if (exchange.state != exchange_state::requested || exchange.is_sidr) return false;
  frame out = rejection;
  out.kind = frame_kind::rejection;
  forward(exchange, out);
  finish(exchange, options_.clock());
  return true;
}

void mad_gateway::remote_request_arrived(std::uint32_t port_key, const frame& request) {
  if (request.kind == frame_kind::remote_rejection)
    return static_cast<void>(end_given_up(request.source, request.communication_id, request));
  const time_point now = options_.clock();
  const address peer = with_port(request.source, 0);
  if (const auto known = by_peer_.find({peer, request.communication_id}); known != by_peer_.end()) {
    mad_exchange& exchange = exchanges_.at(known->second);
    if (exchange.state == exchange_state::ended) {
      // Another request with the same ID.
      if (request.transaction != exchange.request.transaction) {
        forget(exchange);
        return remote_request_arrived(port_key, request);
      }
      remember(exchange, now);
    }
    if (exchange.state != exchange_state::requested) return repeat(exchange);
    exchange.expires_at = now + options_.answer_timeout;
    if (exchange.is_sidr) return set_deadline(exchange, time_point::max());
    mad what = make_mad(exchange, mad_kind::mra);
    what.subject = mad_subject::request;
    what.service_timeout = service_timeout;
    return send_message(exchange, what, {}, now);
  }
  if (carrier_ == nullptr || half_open_ >= options_.max_half_open) return;
  mad_exchange& exchange = *make();
  exchange.is_sidr = request.kind == frame_kind::remote_sidr_request;
  exchange.own = with_port(request.destination, 0);
  exchange.peer = peer;
  exchange.remote_id = request.communication_id;
  exchange.transaction = request.transaction;
  exchange.remote_qpn = request.from.queue_pair;
  enter(exchange, exchange_state::requested);
  exchange.expires_at = now + options_.answer_timeout;
  set_deadline(exchange, time_point::max());
  by_peer_[{peer, request.communication_id}] = exchange.number;
  exchange.request = request;
  // Replies exchange source and destination; the reply to a SIDR request names the requested
  // service.
  if (!exchange.is_sidr) std::swap(exchange.request.source, exchange.request.destination);
  if (!exchange.is_sidr && end_stale_connection(peer, exchange.remote_qpn, now))
    return reject(exchange, reject_reason::stale_connection, now);
  frame passed = request;
  passed.kind = exchange.is_sidr ? frame_kind::sidr_request : frame_kind::request;
  passed.communication_id = exchange.own_id;
  passed.from.gid = gid_of(peer);  // not a GID that the peer chooses
  unique_fd other;
  if (connect_endpoint(exchange, other) != 0)
    return forget(exchange);  // the peer repeats its request
  observer_.request_arrived(std::move(other), port_key, passed);
}

void mad_gateway::message_arrived(const address& own, const address& peer, const mad& message,
                                  time_point now) {
  if (carrier_ == nullptr) return;
  mad_exchange* const known = find(message.receiver_id);
  if (known == nullptr || known->state == exchange_state::begun || !same_host(known->peer, peer) ||
      !same_host(known->own, own)) {
    return answer(own, peer, message);
  }
  mad_exchange& exchange = *known;
  switch (message.kind) {
    case mad_kind::reply:
      return reply_arrived(exchange, message, now);
    case mad_kind::sidr_reply:
      return sidr_reply_arrived(exchange, message, now);
    case mad_kind::ready:
      if (message.sender_id != exchange.remote_id) return;
      // The peer may lack the rejection.
      if (exchange.state == exchange_state::ended && !exchange.active && exchange.rejected)
        return repeat(exchange);
      if (exchange.state != exchange_state::replied) return;
      become_connected(exchange);
      return forward(exchange, frame_kind::ready);
    case mad_kind::rejection:
      if (exchange.state == exchange_state::ended || exchange.is_sidr) return;
      if (exchange.state != exchange_state::requesting && message.sender_id != exchange.remote_id)
        return;
      return rejected(exchange, message, now);
    case mad_kind::disconnect:
      return disconnect_arrived(exchange, message, now);
    case mad_kind::disconnected:
      if (exchange.state != exchange_state::disconnecting ||
          message.sender_id != exchange.remote_id)
        return;
      forward(exchange, frame_kind::disconnected);
      return finish(exchange, now);
    case mad_kind::mra:
      return mra_arrived(exchange, message, now);
    case mad_kind::request:
    case mad_kind::sidr_request:
      return;
  }
}

void mad_gateway::become_connected(mad_exchange& exchange) {
  enter(exchange, exchange_state::connected);
  exchange.has_last_message = false;
  set_deadline(exchange, time_point::max());
}

void mad_gateway::note_established(std::uint32_t communication_id, time_point now) {
  flush(communication_id, now);  // the reply
  mad_exchange* const known = find(communication_id);
  if (known != nullptr && known->state == exchange_state::replied) become_connected(*known);
}

/// Answers a message with an unknown communication ID, if it needs an answer.
void mad_gateway::answer(const address& own, const address& peer, const mad& message) {
  const auto what = answer_to_unknown(message);
  if (!what) return;
  std::array<std::byte, mad_bytes> bytes{};
  write_mad(*what, bytes);
  carrier_->send(own, peer, bytes);
}

void mad_gateway::reply_arrived(mad_exchange& exchange, const mad& message, time_point now) {
  if (!exchange.active || exchange.is_sidr) return;
  if (exchange.state != exchange_state::requesting) {
    // The RTU was lost, or the message that ended the exchange.
    if (message.sender_id == exchange.remote_id) return repeat(exchange);
    if (exchange.state == exchange_state::ended && exchange.remote_id == 0)
      answer(exchange.own, exchange.peer, message);
    return;
  }
  exchange.remote_id = message.sender_id;
  exchange.remote_qpn = message.content.from.queue_pair;
  enter(exchange, exchange_state::answered);
  if (end_stale_connection(exchange.peer, exchange.remote_qpn, now)) {
    forward(exchange, frame_kind::rejection, reject_reason::stale_connection);
    return reject(exchange, reject_reason::stale_connection, now);
  }
  exchange.has_last_message = false;
  set_deadline(exchange, time_point::max());
  frame reply = message.content;
  reply.from.gid = gid_of(exchange.peer);
  forward(exchange, reply);
}

void mad_gateway::sidr_reply_arrived(mad_exchange& exchange, const mad& message, time_point now) {
  if (!exchange.active || !exchange.is_sidr || exchange.state != exchange_state::requesting) return;
  frame reply = message.content;
  reply.from.gid = gid_of(exchange.peer);
  forward(exchange, reply);
  if (reply.reason == sidr_status::no_listener) return forget(exchange);
  finish(exchange, now);
}

/// Ends an exchange that the peer has rejected. If no process listens, the endpoint may send
/// many requests, so their exchanges are erased: later messages get the answer of an unknown ID.
void mad_gateway::rejected(mad_exchange& exchange, const mad& message, time_point now) {
  forward(exchange, message.content);
  const bool no_listener = exchange.state == exchange_state::requesting &&
                           message.subject == mad_subject::request &&
                           message.content.reason == reject_reason::no_listener;
  if (no_listener) return forget(exchange);
  finish(exchange, now);
}

void mad_gateway::disconnect_arrived(mad_exchange& exchange, const mad& message, time_point now) {
  if (message.sender_id != exchange.remote_id ||
      message.content.from.queue_pair != exchange.own_qpn)
    return;
  switch (exchange.state) {
    case exchange_state::ended:
    case exchange_state::disconnecting:
      exchange.transaction = message.transaction;
      send_message(exchange, make_mad(exchange, mad_kind::disconnected), {}, now);
      if (exchange.state == exchange_state::ended) return;
      forward(exchange, frame_kind::disconnect);
      return finish(exchange, now);
    case exchange_state::answered:
    case exchange_state::replied:
    case exchange_state::connected:
      exchange.transaction = message.transaction;
      exchange.has_last_message = false;
      set_deadline(exchange, time_point::max());
      if (exchange.socket) return forward(exchange, frame_kind::disconnect);
      send_message(exchange, make_mad(exchange, mad_kind::disconnected), {}, now);
      return finish(exchange, now);
    default:
      return;
  }
}

/// Handles an MRA: the peer's program needs time. The MRA contains the peer's communication ID,
/// which this side needs to reject a request that it gives up.
void mad_gateway::mra_arrived(mad_exchange& exchange, const mad& message, time_point now) {
  const bool awaited =
      (exchange.state == exchange_state::requesting && message.subject == mad_subject::request) ||
      (exchange.state == exchange_state::replied && message.subject == mad_subject::reply);
  if (!awaited || exchange.interval.count() == 0) return;
  if (exchange.state == exchange_state::replied && message.sender_id != exchange.remote_id) return;
  if (exchange.state == exchange_state::requesting) exchange.remote_id = message.sender_id;
  set_deadline(exchange, now + duration_of(message.service_timeout) + exchange.interval);
}

/// Sends a frame to the endpoint. If its socket is full, the endpoint has stopped reading and will
/// close its end.
void mad_gateway::forward(mad_exchange& exchange, const frame& what) {
  if (!exchange.socket) return;
  frame out = what;
  out.space = exchange.request.space;
  static_cast<void>(send_frame(exchange.socket.get(), out));
}

void mad_gateway::forward(mad_exchange& exchange, frame_kind kind, std::uint32_t reason) {
  frame out;
  out.kind = kind;
  out.reason = reason;
  forward(exchange, out);
}

}  // namespace verbena::softdev::cm
