// SPDX-License-Identifier: MIT
// One turn of service: events of sockets and processes, grants, deaths, and what has to be told.
#include "softdev/peers/link_service.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>

namespace verbena::softdev {

link::serviced link::service(time_point now) {
  receiver_->forbid_in_handler();
  const std::unique_lock lock(service_mutex_, std::try_to_lock);
  if (!lock) return {.events = 0, .next = now + retry_interval};
  requests_.clear();
  events_ = 0;
  start_connections(now);
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int index = 0; index < count; ++index) {
    dispatch(events[static_cast<std::size_t>(index)].data.u64, now);
  }
  expire(now);
  end_closing(now);
  const bool died = std::ranges::any_of(
      receiver_->peers(), [](const auto& each) { return each->state() == peer_state::dead; });
  if (requests_.take_ended() || died) bury_dead();
  watch_departed_ = peers_.sweep();
  tell_retired_arenas();
  for (const auto& each : receiver_->peers()) drop_retired_mappings(*each);
  if (receiver_->uses_doorbells() && now >= next_full_scan_) {
    next_full_scan_ = now + full_scan_interval;
    receiver_->look_at_all();
  }
  hellos_out_.store(
      std::ranges::any_of(connecting_, [](const auto& e) { return bool(e->socket_); }),
      std::memory_order_seq_cst);
  return {.events = events_, .next = next_deadline(now)};
}

void link::finish_hellos() {
  receiver_->forbid_in_handler();
  if (!hellos_out_.load(std::memory_order_seq_cst)) return;
  const std::lock_guard lock(service_mutex_);
  const auto waiting = connecting_;  // pairing changes the list's members, not the list
  for (const auto& each : waiting) {
    if (each->state() == peer_state::connecting && each->socket_) {
      read_peer(each, std::chrono::steady_clock::now());
    }
  }
}

void link::dispatch(std::uint64_t tag, time_point now) {
  const auto source = static_cast<event_source>(tag >> 32);
  const auto number = static_cast<std::uint32_t>(tag);
  switch (source) {
    case event_source::listener:
      return accept_connections(now);
    case event_source::pending: {
      const auto at =
          std::ranges::find_if(pending_, [&](const auto& each) { return each->number == number; });
      if (at != pending_.end()) read_pending(**at, now);
      return;
    }
    case event_source::peer_socket:
      if (const auto from = find(number); from && from->socket_) read_peer(from, now);
      return;
    case event_source::peer_process:
      if (const auto from = find(number); from && from->watch_.exited()) close_down(from, now);
      return;
  }
}

void link::read_peer(const std::shared_ptr<peer>& from, time_point now) {
  if (from->closing_) return;
  from->flush_messages();
  for (int turn = 0; turn < messages_per_turn && from->outbox_.empty(); ++turn) {
    received_message got = receive_message(from->socket_.get());
    if (got.status == receive_status::empty) break;
    if (got.status == receive_status::closed) {
      if (from->state() == peer_state::connecting) return lost_while_connecting(*from);
      return close_down(from, now);
    }
    const bool sound =
        got.status == receive_status::received &&
        (from->state() == peer_state::connecting ? answered(from, got) : handle(*from, got));
    if (!sound) return requests_.end_for_message(*from);
    if (from->state() != peer_state::paired) return;
  }
  // A peer that does not read its answers gets none of its questions read.
  watch_socket(*from, from->outbox_.empty() ? EPOLLIN : EPOLLOUT, EPOLL_CTL_MOD);
}

bool link::answered(const std::shared_ptr<peer>& from, received_message& got) {
  if (got.message.kind == message_kind::refuse_version ||
      (got.message.kind == message_kind::hello && got.message.version != layout_version)) {
    requests_.end(*from, peer_end::other_version);
    return true;
  }
  if (got.message.kind != message_kind::hello) return false;
  finish_pairing(from, pair_with(*from, got));
  return true;
}

bool link::handle(peer& from, received_message& got) {
  const link_message& said = got.message;
  ++events_;
  switch (said.kind) {
    case message_kind::ask_arena:
      return give_arena(from, said.id);
    case message_kind::give_arena:
      return from.arenas_.insert(said.id, std::move(got.descriptors[0]), said.bytes);
    case message_kind::refuse_arena:
      return from.arenas_.refuse(said.id), true;
    case message_kind::arena_gone:
      return from.arenas_.retire(said.id), true;
    case message_kind::ask_channel: {
      unique_fd copy = channels_.share(static_cast<wake_channel_id>(said.id), &from);
      const auto kind = copy ? message_kind::give_channel : message_kind::refuse_channel;
      const link_message answer{.kind = kind, .id = said.id};
      return from.post_message(answer, std::move(copy));
    }
    case message_kind::give_channel:
      if (!is_wake_socket(got.descriptors[0].get())) return false;
      from.take_channel(static_cast<wake_channel_id>(said.id), std::move(got.descriptors[0]));
      return true;
    case message_kind::refuse_channel:
      from.take_channel(static_cast<wake_channel_id>(said.id), {});
      return true;
    case message_kind::hello:
    case message_kind::refuse_version:
      return false;
  }
  return false;
}

bool link::give_arena(peer& to, std::uint64_t arena) {
  auto share = arenas_.share_arena(arena);
  if (!share) {
    const link_message refusal{.kind = message_kind::refuse_arena, .id = arena};
    return to.post_message(refusal, {});
  }
  to.given_arenas_ = true;
  const link_message grant{.kind = message_kind::give_arena, .id = arena, .bytes = share->bytes};
  return to.post_message(grant, std::move(share->fd));
}

void link::expire(time_point now) {
  for (const auto& each : connecting_) {
    if (each->state() != peer_state::connecting || now < each->deadline_) continue;
    each->deadline_ = now + overdue_interval;
    if (!each->overdue_.exchange(true, std::memory_order_acq_rel)) ++events_;
  }
  std::erase_if(connecting_,
                [](const auto& each) { return each->state() != peer_state::connecting; });
  std::erase_if(pending_, [&](const auto& each) { return now >= each->give_up_at; });
}

void link::close_down(const std::shared_ptr<peer>& from, time_point now) {
  if (from->closing_ || from->state() != peer_state::paired) return;
  from->closing_ = true;
  from->deadline_ = now + drain_time;
  stop_watching(*from);
  closing_.push_back(from);
  ++events_;
}

void link::end_closing(time_point now) {
  std::erase_if(closing_, [&](const std::shared_ptr<peer>& each) {
    bool drained = now >= each->deadline_ || each->state() == peer_state::dead;
    if (!drained) drained = receiver_->is_drained(*each);
    if (drained) requests_.end(*each, peer_end::exited);
    return drained;
  });
}

void link::stop_watching(peer& which) {
  if (which.socket_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, which.socket_.get(), nullptr);
  if (which.watch_.fd() >= 0) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, which.watch_.fd(), nullptr);
  }
}

void link::ignore_wakes(const peer& of) noexcept {
  wake_->dismiss(&of);

  channels_.dismiss(&of);
}

void link::bury_dead() {
  const auto received = receiver_->peers();  // stop() changes it
  for (const auto& each : received) {
    if (each->state() == peer_state::dead) receiver_->stop(each);
  }
  for (const auto& each : peers_.all()) {
    if (each->state() != peer_state::dead) continue;
    stop_watching(*each);
    ignore_wakes(*each);
    if (!peers_.bury(each)) continue;
    ++events_;
    if (each->pid() != 0 || each->generation_ != 0) requests_.count_lost_peer();
  }
}

void link::tell_retired_arenas() {
  for (const std::uint64_t arena : arenas_.take_retired()) {
    const link_message gone{.kind = message_kind::arena_gone, .id = arena};
    for (const auto& each : receiver_->peers()) {
      if (!each->given_arenas_ || each->closing_) continue;
      if (!each->post_message(gone, {})) requests_.end_for_message(*each);
      if (!each->outbox_.empty()) watch_socket(*each, EPOLLOUT, EPOLL_CTL_MOD);
    }
  }
}

void link::drop_retired_mappings(peer& of) {
  if (of.arenas_.has_retired()) {
    peer::retired_mappings retired{.nodes = of.arenas_.take_retired(), .lanes = {}};
    for (std::uint32_t lane = 0; lane < lane_count; ++lane) {
      retired.lanes[lane] = of.own_lane(lane).load(std::memory_order_seq_cst);
    }
    of.retired_.push_back(std::move(retired));
  }
  std::erase_if(of.retired_, [&](const peer::retired_mappings& each) {
    for (std::uint32_t lane = 0; lane < lane_count; ++lane) {
      const bool inside = (each.lanes[lane] & 1U) != 0;
      if (inside && of.own_lane(lane).load(std::memory_order_seq_cst) == each.lanes[lane]) {
        return false;
      }
    }
    return true;
  });
}

std::optional<link::time_point> link::next_deadline(time_point now) const {
  std::optional<time_point> next;
  const auto at_latest = [&](time_point when) {
    if (!next || when < *next) next = when;
  };
  for (const auto& each : connecting_) {
    const bool waits_here = !each->socket_ || each->hello_waits_;
    if (!each->is_overdue()) at_latest(waits_here ? now + retry_interval : each->deadline_);
    if (each->is_overdue() && waits_here) at_latest(each->deadline_);
  }
  for (const auto& each : pending_) at_latest(each->give_up_at);
  for (const auto& each : receiver_->peers()) {
    if (!each->retired_.empty()) at_latest(now + retry_interval);
  }
  if (!closing_.empty()) at_latest(now + retry_interval);
  if (watch_departed_) at_latest(now + departed_interval);
  if (receiver_->uses_doorbells()) at_latest(next_full_scan_);
  return next;
}

}  // namespace verbena::softdev
