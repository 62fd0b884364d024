// SPDX-License-Identifier: MIT
#include "softdev/cm/mad_gateway.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "softdev/cm/port_names.hpp"
#include "softdev/core/process_slot.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev::cm {
namespace {

using std::chrono::milliseconds;

constexpr unsigned pair_bits = 8;           // low bits of a communication ID, below a QP number
constexpr std::uint8_t working_time = 20;   // 4.3 s
constexpr milliseconds remembered{10'000};  // longer than peers wait before they repeat a message

milliseconds duration_of(std::uint8_t time) noexcept {
  constexpr unsigned longest = 24;  // 69 s
  const std::uint64_t ns = std::uint64_t{4096} << std::min<unsigned>(time, longest);
  return milliseconds(ns / 1'000'000);
}

}  // namespace

std::uint32_t slot_of_conversation(std::uint32_t id) noexcept {
  return slot_of_number(id >> pair_bits);
}

int pass_to_listener(const mad& request) {
  frame what = request.content;
  const bool lookup = what.kind == frame_kind::lookup;
  what.kind = lookup ? frame_kind::remote_lookup : frame_kind::remote_request;
  what.conversation = request.sender_id;
  what.transaction = request.transaction;
  if (what.destination.family == address_family::none) return ECONNREFUSED;
  const socket_or_error to = connect_to_port(what.space, what.destination);
  if (to.error == EACCES) return ECONNREFUSED;
  if (to.error != 0) return to.error;
  return send_frame(to.socket.get(), what) == send_outcome::sent ? 0 : EAGAIN;
}

mad refusal_of(const mad& request, std::uint32_t reason) noexcept {
  mad out{.transaction = request.transaction,
          .receiver_id = request.sender_id,
          .subject = mad_subject::request};
  out.content.space = request.content.space;
  out.content.destination = request.content.destination;
  if (request.kind == mad_kind::lookup) {
    out.kind = mad_kind::lookup_reply;
    out.sender_id = request.sender_id;
    out.content.reason =
        reason == reject_reason::no_listener ? lookup_status::no_listener : lookup_status::rejected;
  } else {
    out.kind = mad_kind::rejection;
    out.content.reason = reason;
  }
  return out;
}

std::optional<mad> answer_to_unknown(const mad& said) noexcept {
  mad out{.transaction = said.transaction,
          .sender_id = said.receiver_id,
          .receiver_id = said.sender_id};
  switch (said.kind) {
    case mad_kind::disconnect:
      out.kind = mad_kind::disconnected;
      return out;
    case mad_kind::reply:
      out.kind = mad_kind::rejection;
      out.subject = mad_subject::reply;
      out.content.reason = reject_reason::unknown_conversation;
      return out;
    default:
      return std::nullopt;
  }
}

// The table of conversations.

void mad_gateway::close_all() noexcept {
  for (auto& [number, each] : dialogs_) each.end.reset();
}

std::uint32_t mad_gateway::unused_id() const {
  const std::uint32_t slot = carrier_->identity().process_slot;
  while (true) {
    const std::uint32_t pair = first_number_of(slot) + random_u32() % count_of_numbers(slot);
    const std::uint32_t id = pair << pair_bits | (random_u32() & ((1U << pair_bits) - 1));
    if (id != 0 && !by_own_id_.contains(id)) return id;
  }
}

mad_gateway::dialog* mad_gateway::make() {
  const std::uint64_t number = next_number_++;
  dialog& made = dialogs_[number];
  made.number = number;
  made.own_id = unused_id();
  by_own_id_[made.own_id] = number;
  return &made;
}

mad_gateway::dialog* mad_gateway::find(std::uint32_t own_id) noexcept {
  const auto known = by_own_id_.find(own_id);
  return known != by_own_id_.end() ? &dialogs_.at(known->second) : nullptr;
}

int mad_gateway::connect_end(dialog& which, unique_fd& other) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return errno;
  which.end = unique_fd(ends[0]);
  other = unique_fd(ends[1]);
  return watch_.watch(which.end.get(), {source_kind::remote, which.number});
}

void mad_gateway::close_end(dialog& which) noexcept {
  watch_.unwatch(which.end.get());
  which.end.reset();
}

void mad_gateway::enter(dialog& which, stage next) {
  const auto is_half_open = [](stage at) { return at == stage::requested || at == stage::replied; };
  if (is_half_open(which.at)) --half_open_;
  if (is_half_open(next)) ++half_open_;
  if (which.at == stage::requested) which.forget_at = time_point::max();
  which.at = next;
}

void mad_gateway::forget(dialog& which) {
  close_end(which);
  enter(which, stage::ended);
  which.forget_at = time_point::max();
  set_deadline(which, time_point::max());
  if (!which.active) by_peer_.erase({which.peer, which.remote_id});
  by_own_id_.erase(which.own_id);
  dialogs_.erase(which.number);
}

void mad_gateway::set_deadline(dialog& which, time_point when) {
  when = std::min(when, which.forget_at);
  if (which.deadline != time_point::max()) deadlines_.erase({which.deadline, which.number});
  which.deadline = when;
  if (when != time_point::max()) deadlines_.emplace(when, which.number);
}

void mad_gateway::expire(time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    dialog& which = dialogs_.at(deadlines_.begin()->second);
    if (which.forget_at <= now) {
      if (which.at != stage::requested) {
        forget(which);
        continue;
      }
      // The peer no longer repeats its request.
      tell(which, frame_kind::rejection, reject_reason::timeout);
      finish(which, now);
      continue;
    }
    repeat(which);
    which.interval = std::min(2 * which.interval, options_.longest_repeat);
    set_deadline(which, now + which.interval);
  }
}

// Messages to the peer.

mad mad_gateway::message(const dialog& which, mad_kind kind) const {
  mad out{.kind = kind,
          .transaction = which.transaction,
          .sender_id = which.own_id,
          .receiver_id = which.remote_id,
          .guid = carrier_->identity().guid};
  if (which.lookup && !which.active) out.sender_id = which.remote_id;
  out.content.space = which.request.space;
  out.content.source = which.request.source;
  out.content.destination = which.request.destination;
  return out;
}

/// Sends a message. Repeats it after `interval`; if 0, only when the peer repeats its own message.
void mad_gateway::say(dialog& which, const mad& what, milliseconds interval, time_point now) {
  write_mad(what, which.last);
  which.has_last = true;
  which.interval = interval;
  repeat(which);
  set_deadline(which, interval.count() != 0 ? now + interval : time_point::max());
}

void mad_gateway::repeat(const dialog& which) noexcept {
  if (which.has_last) carrier_->send(which.own, which.peer, which.last);
}

/// Ends a conversation. Repeated messages of the peer are still answered.
void mad_gateway::finish(dialog& which, time_point now) {
  close_end(which);
  enter(which, stage::ended);
  which.interval = {};
  which.forget_at = now + remembered;
  set_deadline(which, time_point::max());
}

// Frames of the endpoint.

socket_or_error mad_gateway::begin(std::uint32_t& conversation) {
  socket_or_error made;
  dialog& which = *make();
  conversation = which.own_id;
  which.active = true;
  made.error = connect_end(which, made.socket);
  if (made.error == 0) return made;
  forget(which);
  made.socket.reset();
  return made;
}

void mad_gateway::read(std::uint64_t number, time_point now) {
  for (int turn = 0; turn < frames_per_turn; ++turn) {
    const auto found = dialogs_.find(number);
    if (found == dialogs_.end() || !found->second.end) return;
    dialog& which = found->second;
    frame said;
    switch (receive_frame(which.end.get(), said)) {
      case receive_outcome::nothing:
        return;
      case receive_outcome::received:
        handle(which, said, now);
        break;
      default:
        return end_closed(which, now);
    }
  }
}

void mad_gateway::flush(std::uint32_t conversation, time_point now) {
  if (const dialog* const which = find(conversation); which != nullptr) read(which->number, now);
}

void mad_gateway::handle(dialog& which, const frame& said, time_point now) {
  switch (said.kind) {
    case frame_kind::request:
    case frame_kind::lookup: {
      if (which.at != stage::begun) return;
      which.lookup = said.kind == frame_kind::lookup;
      which.request = said;
      which.own = with_port(said.source, 0);
      which.peer = with_port(said.destination, 0);
      which.own_pair = said.from.queue_pair;
      which.transaction = std::uint64_t{random_u32()} << 32U | which.own_id;
      enter(which, stage::requesting);
      mad what = message(which, which.lookup ? mad_kind::lookup : mad_kind::request);
      what.content = said;
      return say(which, what, options_.first_repeat, now);
    }
    case frame_kind::reply: {
      if (which.at != stage::requested) return;
      enter(which, stage::replied);
      which.own_pair = said.from.queue_pair;
      mad what = message(which, mad_kind::reply);
      what.content.from = said.from;
      what.content.data = said.data;
      return say(which, what, options_.first_repeat, now);
    }
    case frame_kind::lookup_reply: {
      if (which.at != stage::requested) return;
      mad what = message(which, mad_kind::lookup_reply);
      what.content.from = said.from;
      what.content.reason = said.reason;
      what.content.data = said.data;
      say(which, what, {}, now);
      return finish(which, now);
    }
    case frame_kind::ready:
      if (which.at != stage::answered) return;
      enter(which, stage::connected);
      return say(which, message(which, mad_kind::ready), {}, now);
    case frame_kind::rejection:
      return reject(which, said, now);
    case frame_kind::disconnect:
      return ask_for_end(which, now);
    case frame_kind::disconnected:
      if (which.at == stage::ended) return;
      say(which, message(which, mad_kind::disconnected), {}, now);
      return finish(which, now);
    case frame_kind::remote_request:
    case frame_kind::remote_lookup:
      return;
  }
}

void mad_gateway::reject(dialog& which, const frame& said, time_point now) {
  if (which.at == stage::begun || which.at == stage::ended) return;
  if (which.at == stage::connected || which.at == stage::disconnecting)
    return ask_for_end(which, now);
  mad what = message(which, mad_kind::rejection);
  const bool about_reply = which.at == stage::answered;
  what.subject = about_reply ? mad_subject::reply : mad_subject::request;
  if (which.at == stage::replied) what.subject = mad_subject::other;
  what.content.reason = said.reason;
  what.content.data = said.data;
  say(which, what, {}, now);
  finish(which, now);
}

void mad_gateway::ask_for_end(dialog& which, time_point now) {
  if (which.at != stage::answered && which.at != stage::replied && which.at != stage::connected)
    return;
  enter(which, stage::disconnecting);
  mad what = message(which, mad_kind::disconnect);
  what.content.from.queue_pair = which.remote_pair;
  which.forget_at = now + options_.disconnect_timeout;
  say(which, what, options_.first_repeat, now);
}

/// Handles an endpoint that has closed its socket without a last frame.
void mad_gateway::end_closed(dialog& which, time_point now) {
  close_end(which);
  frame refusal;
  refusal.kind = frame_kind::rejection;
  refusal.reason = reject_reason::consumer;
  switch (which.at) {
    case stage::begun:
      return forget(which);
    case stage::requesting:
      if (which.lookup) return forget(which);
      refusal.reason = reject_reason::timeout;
      return reject(which, refusal, now);
    case stage::requested:
      if (!which.lookup) return reject(which, refusal, now);
      refusal.kind = frame_kind::lookup_reply;
      refusal.reason = lookup_status::rejected;
      return handle(which, refusal, now);
    case stage::answered:
      return reject(which, refusal, now);
    case stage::replied:
    case stage::connected:
      return ask_for_end(which, now);
    case stage::disconnecting:
    case stage::ended:
      return;
  }
}

// Messages of the peer.

void mad_gateway::remote_request_arrived(std::uint32_t port_key, const frame& asked) {
  const time_point now = std::chrono::steady_clock::now();
  const address peer = with_port(asked.source, 0);
  if (const auto known = by_peer_.find({peer, asked.conversation}); known != by_peer_.end()) {
    dialog& which = dialogs_.at(known->second);
    if (which.at != stage::requested) return repeat(which);
    which.forget_at = now + options_.answer_timeout;
    if (which.lookup) return set_deadline(which, time_point::max());
    mad what = message(which, mad_kind::working);
    what.subject = mad_subject::request;
    what.working_time = working_time;
    return say(which, what, {}, now);
  }
  if (carrier_ == nullptr || half_open_ >= options_.max_half_open) return;
  dialog& which = *make();
  which.lookup = asked.kind == frame_kind::remote_lookup;
  which.own = with_port(asked.destination, 0);
  which.peer = peer;
  which.remote_id = asked.conversation;
  which.transaction = asked.transaction;
  which.remote_pair = asked.from.queue_pair;
  enter(which, stage::requested);
  which.forget_at = now + options_.answer_timeout;
  set_deadline(which, time_point::max());
  by_peer_[{peer, asked.conversation}] = which.number;
  which.request = asked;
  // Replies exchange source and destination; the reply to a look-up names the requested service.
  if (!which.lookup) std::swap(which.request.source, which.request.destination);
  frame request = asked;
  request.kind = which.lookup ? frame_kind::lookup : frame_kind::request;
  request.conversation = which.own_id;
  request.from.gid = gid_of(peer);  // not a GID that the peer chooses
  unique_fd other;
  if (connect_end(which, other) != 0) return forget(which);  // the peer repeats its request
  observer_.request_arrived(std::move(other), port_key, request);
}

void mad_gateway::message_arrived(const address& own, const address& peer, const mad& said,
                                  time_point now) {
  if (carrier_ == nullptr) return;
  dialog* const known = find(said.receiver_id);
  if (known == nullptr || known->at == stage::begun || !same_host(known->peer, peer) ||
      !same_host(known->own, own)) {
    return answer(own, peer, said);
  }
  dialog& which = *known;
  switch (said.kind) {
    case mad_kind::reply:
      return reply_arrived(which, said);
    case mad_kind::lookup_reply:
      return lookup_answered(which, said, now);
    case mad_kind::ready:
      if (which.at != stage::replied || said.sender_id != which.remote_id) return;
      enter(which, stage::connected);
      which.has_last = false;
      set_deadline(which, time_point::max());
      return tell(which, frame_kind::ready);
    case mad_kind::rejection:
      if (which.at == stage::ended || which.lookup) return;
      if (which.at != stage::requesting && said.sender_id != which.remote_id) return;
      return rejected(which, said, now);
    case mad_kind::disconnect:
      return end_arrived(which, said, now);
    case mad_kind::disconnected:
      if (which.at != stage::disconnecting || said.sender_id != which.remote_id) return;
      tell(which, frame_kind::disconnected);
      return finish(which, now);
    case mad_kind::working:
      return delay(which, said, now);
    case mad_kind::request:
    case mad_kind::lookup:
      return;
  }
}

/// Answers a message of an unknown conversation, if it needs an answer.
void mad_gateway::answer(const address& own, const address& peer, const mad& said) {
  const auto what = answer_to_unknown(said);
  if (!what) return;
  std::array<std::byte, mad_bytes> bytes{};
  write_mad(*what, bytes);
  carrier_->send(own, peer, bytes);
}

void mad_gateway::reply_arrived(dialog& which, const mad& said) {
  if (!which.active || which.lookup) return;
  if (which.at != stage::requesting) {
    // The RTU was lost, or the message that ended the conversation.
    if (said.sender_id == which.remote_id) return repeat(which);
    if (which.at == stage::ended && which.remote_id == 0) answer(which.own, which.peer, said);
    return;
  }
  which.remote_id = said.sender_id;
  which.remote_pair = said.content.from.queue_pair;
  enter(which, stage::answered);
  which.has_last = false;
  set_deadline(which, time_point::max());
  frame heard = said.content;
  heard.from.gid = gid_of(which.peer);
  tell(which, heard);
}

void mad_gateway::lookup_answered(dialog& which, const mad& said, time_point now) {
  if (!which.active || !which.lookup || which.at != stage::requesting) return;
  frame heard = said.content;
  heard.from.gid = gid_of(which.peer);
  tell(which, heard);
  if (heard.reason == lookup_status::no_listener) return forget(which);
  finish(which, now);
}

/// Ends a conversation that the peer has rejected. If no process listens, the endpoint may send
/// many requests, so their conversations are forgotten: the answer to an unknown one is the same.
void mad_gateway::rejected(dialog& which, const mad& said, time_point now) {
  tell(which, said.content);
  const bool no_listener = which.at == stage::requesting && said.subject == mad_subject::request &&
                           said.content.reason == reject_reason::no_listener;
  if (no_listener) return forget(which);
  finish(which, now);
}

void mad_gateway::end_arrived(dialog& which, const mad& said, time_point now) {
  if (said.sender_id != which.remote_id || said.content.from.queue_pair != which.own_pair) return;
  switch (which.at) {
    case stage::ended:
    case stage::disconnecting:
      which.transaction = said.transaction;
      say(which, message(which, mad_kind::disconnected), {}, now);
      if (which.at == stage::ended) return;
      tell(which, frame_kind::disconnect);
      return finish(which, now);
    case stage::answered:
    case stage::replied:
    case stage::connected:
      which.transaction = said.transaction;
      which.has_last = false;
      set_deadline(which, time_point::max());
      if (which.end) return tell(which, frame_kind::disconnect);
      say(which, message(which, mad_kind::disconnected), {}, now);
      return finish(which, now);
    default:
      return;
  }
}

/// Handles an MRA: the peer's program needs time. The MRA contains the peer's communication ID,
/// which this side needs to reject a request that it gives up.
void mad_gateway::delay(dialog& which, const mad& said, time_point now) {
  const bool awaited = (which.at == stage::requesting && said.subject == mad_subject::request) ||
                       (which.at == stage::replied && said.subject == mad_subject::reply);
  if (!awaited || which.interval.count() == 0) return;
  if (which.at == stage::replied && said.sender_id != which.remote_id) return;
  if (which.at == stage::requesting) which.remote_id = said.sender_id;
  set_deadline(which, now + duration_of(said.working_time) + which.interval);
}

/// Sends a frame to the endpoint. If its socket is full, the endpoint has stopped reading and will
/// close its end.
void mad_gateway::tell(dialog& which, const frame& what) {
  if (!which.end) return;
  frame out = what;
  out.space = which.request.space;
  static_cast<void>(send_frame(which.end.get(), out));
}

void mad_gateway::tell(dialog& which, frame_kind kind, std::uint32_t reason) {
  frame out;
  out.kind = kind;
  out.reason = reason;
  tell(which, out);
}

}  // namespace verbena::softdev::cm
