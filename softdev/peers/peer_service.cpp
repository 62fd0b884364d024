// SPDX-License-Identifier: MIT
#include "softdev/peers/peer_service.hpp"

#include <poll.h>

#include <algorithm>
#include <new>
#include <utility>

namespace verbena::softdev {

using namespace std::chrono_literals;

namespace {
constexpr int messages_per_turn = 32;
/// While a peer leaves this number of answers unread, its requests and wake-ups are not read.
constexpr std::size_t most_unsent_answers = 16;
constexpr auto turn_interval = 1ms;
constexpr auto departed_interval = 100ms;
constexpr auto full_scan_interval = 10ms;
/// The longest wait for the last records of a process that exited.
constexpr auto drain_time = 1s;
}  // namespace

peer_service::peer_service(const options& how)
    : how_(how),
      pairing_({.own = how.own,
                .peers = how.peers,
                .receiver = how.receiver,
                .requests = how.requests,
                .watch = watch_,
                .observer = *this}) {}

result<void> peer_service::open() {
  VERBENA_TRY_VOID(watch_.open());
  if (const int failed = watch_.add_listener(how_.own.claim.fd()))
    return error::from_errno(failed, "epoll_ctl");
  return {};
}

peer_service::outcome peer_service::run(time_point now) {
  how_.receiver.forbid_in_handler();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return {.events = 0, .next = now + turn_interval};
  how_.requests.clear();
  bool complete = true;
  try {
    serve(now);
  } catch (const std::bad_alloc&) {
    // The next turn does the rest. A dead peer may not have been removed.
    complete = false;
    how_.requests.repeat_removals();
  }
  pairing_.update_hellos_out();
  auto next = next_deadline(now);
  if (!complete) next = std::min(next.value_or(now + turn_interval), now + turn_interval);
  return {.events = how_.requests.take_events(), .next = next};
}

void peer_service::serve(time_point now) {
  pairing_.start(now);
  for (const reactor::source each : watch_.ready()) dispatch(each, now);
  send_delayed();
  pairing_.expire(now);
  end_closing(now);
  if (how_.requests.take_ended()) {
    how_.requests.count_event();  // also if a new peer has replaced the dead one
    remove_ended_peers();
  }
  watch_departed_ = how_.peers.sweep();
  announce_retired_arenas();
  drop_retired_mappings();
  // Before a sleep, the caller checks the rings itself.
  if (how_.receiver.uses_doorbells() && now >= next_full_scan_) {
    next_full_scan_ = now + full_scan_interval;
    how_.receiver.look_at_all();
  }
}

void peer_service::finish_hellos() {
  how_.receiver.forbid_in_handler();
  if (!pairing_.has_hellos_out()) return;
  const std::lock_guard lock(mutex_);
  const auto waiting = pairing_.connecting();  // reading changes the peers, not the list
  std::vector<pollfd> sockets;
  sockets.reserve(waiting.size());
  for (const auto& each : waiting) sockets.push_back({each->parts().messages.fd(), POLLIN, 0});
  const int ready = ::poll(sockets.data(), sockets.size(), 0);  // ignores those without a socket
  if (ready == 0) return;
  // The progress thread may sleep, and a message that is read here may be meant to wake it.
  how_.own.wakes->signal();
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const auto& each = waiting[i];
    const bool is_ready = ready < 0 || sockets[i].revents != 0;
    if (is_ready && each->state() == peer_state::connecting && each->parts().messages.connected())
      read_peer(each, std::chrono::steady_clock::now());
  }
}

void peer_service::dispatch(reactor::source what, time_point now) {
  const auto number = static_cast<std::uint32_t>(what.number);
  switch (static_cast<service_descriptors::source>(what.kind)) {
    case service_descriptors::source::listener:
      return pairing_.accept(now);
    case service_descriptors::source::pending:
      return pairing_.read_pending(number, now);
    case service_descriptors::source::peer_socket:
      if (const auto from = how_.peers.find(number); from && from->parts().messages.connected()) {
        read_peer(from, now);
      }
      return;
    case service_descriptors::source::peer_process:
      if (const auto from = how_.peers.find(number);
          from && from->parts().process.watch().exited()) {
        close_down(from, now);
      }
      return;
  }
}

void peer_service::read_peer(const std::shared_ptr<peer>& from, time_point now) {
  if (from->parts().service.closing) return;
  try {
    read_messages(from, now);
  } catch (const std::bad_alloc&) {
    // To a paired peer, the end of the connection is the exit of this process.
    const bool was_paired = from->takes_records();
    how_.requests.end(*from, was_paired ? peer_end::message_lost : peer_end::out_of_resources);
  }
}

void peer_service::read_messages(const std::shared_ptr<peer>& from, time_point now) {
  peer_messages& messages = from->parts().messages;
  messages.flush();
  for (int turn = 0; turn < messages_per_turn && messages.queued() < most_unsent_answers; ++turn) {
    received_message got = messages.receive();
    if (got.status == receive_status::empty) break;
    if (got.status == receive_status::closed) {
      if (from->state() == peer_state::connecting) return pairing_.lost(*from);
      return close_down(from, now);
    }
    const bool sound = got.status == receive_status::received &&
                       (from->state() == peer_state::connecting ? pairing_.answered(from, got)
                                                                : handle(*from, got));
    if (!sound) return how_.requests.end_for_message(*from);
    if (from->state() != peer_state::paired) return;
    // A wake-up is seldom followed by another message. If one follows, the socket stays readable.
    if (got.message.kind == message_kind::wake) break;
  }
  watch_socket_of(*from);
}

void peer_service::watch_socket_of(peer& which) {
  using wanted = reactor::wanted;
  const peer_messages& messages = which.parts().messages;
  const std::size_t unsent = messages.queued();
  const bool reads = unsent < most_unsent_answers;
  wanted what = unsent == 0 ? wanted::readable : reads ? wanted::either : wanted::writable;
  if (messages.delayed()) {
    delayed_.insert(which.slot());
    any_delayed_ = true;
    what = reads ? wanted::readable : wanted::neither;
  }
  // Without the comparison, each wake-up would cost one more system call.
  if (which.parts().service.watched != what) watch_.watch_socket(which, what);
}

/// Tries again to send messages for which the kernel lacked a resource.
void peer_service::send_delayed() {
  if (!any_delayed_) return;
  any_delayed_ = false;
  delayed_.drain([this](std::uint32_t slot) {
    const auto to = how_.peers.find(slot);
    if (!to || to->state() != peer_state::paired || to->parts().service.closing) return;
    to->parts().messages.flush();
    watch_socket_of(*to);
  });
}

bool peer_service::handle(peer& from, received_message& got) {
  peer_parts& parts = from.parts();
  const link_message& said = got.message;
  if (said.kind == message_kind::wake) return true;
  how_.requests.count_event();
  switch (said.kind) {
    case message_kind::ask_arena:
      return give_arena(from, said.id);
    case message_kind::give_arena:
      return parts.arenas.insert(said.id, std::move(got.descriptors[0]), said.bytes);
    case message_kind::refuse_arena:
      return parts.arenas.refuse(said.id), true;
    case message_kind::arena_gone:
      return parts.arenas.retire(said.id), true;
    case message_kind::ask_channel: {
      unique_fd copy = how_.own.channels.share(static_cast<wake_channel_id>(said.id), &from);
      const auto kind = copy ? message_kind::give_channel : message_kind::refuse_channel;
      const link_message answer{.kind = kind, .id = said.id};
      return parts.messages.post(answer, std::move(copy));
    }
    case message_kind::give_channel:
      if (!is_wake_socket(got.descriptors[0].get())) return false;
      parts.channels.take(static_cast<wake_channel_id>(said.id), std::move(got.descriptors[0]));
      return true;
    case message_kind::refuse_channel:
      parts.channels.take(static_cast<wake_channel_id>(said.id), {});
      return true;
    case message_kind::wake:
      return true;
    case message_kind::hello:
    case message_kind::refuse_version:
      return false;
  }
  return false;
}

bool peer_service::give_arena(peer& to, std::uint64_t arena) {
  auto share = how_.own.arenas.share_arena(arena);
  if (!share) {
    const link_message refusal{.kind = message_kind::refuse_arena, .id = arena};
    return to.parts().messages.post(refusal, {});
  }
  to.parts().service.given_arenas = true;
  const link_message grant{.kind = message_kind::give_arena, .id = arena, .bytes = share->bytes};
  return to.parts().messages.post(grant, std::move(share->fd));
}

void peer_service::close_down(const std::shared_ptr<peer>& from, time_point now) {
  service_notes& notes = from->parts().service;
  if (notes.closing || from->state() != peer_state::paired) return;
  closing_.push_back(from);
  notes.closing = true;
  notes.deadline = now + drain_time;
  watch_.stop(*from);
  how_.requests.count_event();
}

void peer_service::end_closing(time_point now) {
  std::erase_if(closing_, [&](const std::shared_ptr<peer>& each) {
    bool drained = now >= each->parts().service.deadline || each->state() == peer_state::dead;
    if (!drained) drained = how_.receiver.is_drained(*each);
    if (drained) how_.requests.end(*each, peer_end::exited);
    return drained;
  });
}

void peer_service::remove_ended_peers() {
  const auto received = how_.receiver.peers();  // a copy: stop() changes the list
  for (const auto& each : received) {
    if (each->state() == peer_state::dead) how_.receiver.stop(each);
  }
  for (const auto& each : how_.peers.all()) {
    if (each->state() != peer_state::dead) continue;
    watch_.stop(*each);
    how_.own.ignore_wakes(*each);
    if (!how_.peers.remove_ended(each)) continue;
    how_.requests.count_change(*each);
    if (each->pid() != 0 || each->parts().process.generation() != 0)
      how_.requests.count_lost_peer();
  }
}

void peer_service::announce_retired_arenas() {
  for (const std::uint64_t arena : how_.own.arenas.take_retired()) {
    const link_message gone{.kind = message_kind::arena_gone, .id = arena};
    for (const auto& each : how_.receiver.peers()) {
      const service_notes& notes = each->parts().service;
      if (!notes.given_arenas || notes.closing) continue;
      peer_messages& messages = each->parts().messages;
      if (!messages.post(gone, {})) how_.requests.end_for_message(*each);
      if (messages.queued() != 0) watch_socket_of(*each);
    }
  }
}

void peer_service::drop_retired_mappings() {
  how_.own.marks->retired_mappings.drain([this](std::uint32_t slot) {
    auto of = how_.peers.find(slot);
    if (of && std::ranges::find(retiring_, of) == retiring_.end())
      retiring_.push_back(std::move(of));
  });
  std::erase_if(retiring_, [](const auto& each) { return each->parts().arenas.drop_retired(); });
}

std::optional<peer_service::time_point> peer_service::next_deadline(time_point now) const {
  std::optional<time_point> next = pairing_.next_deadline(now);
  const auto at_latest = [&](time_point when) {
    if (!next || when < *next) next = when;
  };
  if (!retiring_.empty()) at_latest(now + turn_interval);
  if (!closing_.empty() || any_delayed_) at_latest(now + turn_interval);
  if (watch_departed_) at_latest(now + departed_interval);
  return next;
}

}  // namespace verbena::softdev
