// SPDX-License-Identifier: MIT
#include "softdev/fabric/endpoint.hpp"

#include <mutex>

#include "softdev/core/queue_pair.hpp"
#include "softdev/core/queue_pair_block.hpp"
#include "softdev/core/route.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/fabric/published_views.hpp"

namespace verbena::softdev {

fabric_endpoint_counters fabric_endpoint::counters() const noexcept {
  return {state_.direct.mapped(), state_.direct.copied(), state_.by_ring.sum(),
          ring_.references().sent(), state_.dropped.sum() + state_.successes.lost()};
}

response fabric_endpoint::submit(queue_pair& sender, const message& what,
                                 std::span<const segment> local, bool earlier_done) noexcept {
  connection* by = state_.connection_of(sender);
  if (by == nullptr) return without_answer(reason::peer_unreachable, what);
  const transport_rules& rules = rules_of(what.transport);
  switch (rules.mode) {
    case delivery_mode::parts:
      return parts_.send(sender, *by, what, local);
    case delivery_mode::datagrams:
      if (is_for_group(what)) return groups_.send(sender, *by, what, local);
      find_peer(sender, *by, what);
      if (by->to == nullptr) return without_answer(reason::peer_unreachable, what);
      break;
    case delivery_mode::stream:
      break;
  }
  peer& to = *by->to;
  if (to.state() == peer_state::connecting) state_.wait_for_room(sender, to);
  switch (to.state()) {
    case peer_state::connecting:
      by->overdue = to.is_overdue();
      if (!by->overdue) return {.outcome = verdict::blocked};
      state_.stop_waiting(sender);
      return from_overdue(what);
    case peer_state::dead:
      return from_dead(to, what);
    case peer_state::paired:
      break;
  }
  state_.successes.flush();
  if (by->read.waits) return {.outcome = verdict::blocked};
  if (!rules.acknowledged) earlier_done = to.has_handled(by->sent.position);
  return submit_to_paired(sender, *by, what, local, earlier_done);
}

response fabric_endpoint::submit_to_paired(queue_pair& sender, connection& by, const message& what,
                                           std::span<const segment> local,
                                           bool earlier_done) noexcept {
  response out;
  if (ring_sender::has_begun(by, what) ||
      !state_.direct.execute(sender, *by.to, {what, local, earlier_done}, out))
    ring_.send(sender, by, what, local, out);
  return out;
}

void fabric_endpoint::end_run(queue_pair& sender) noexcept {
  if (connection* by = state_.connection_of(sender)) ring_sender::announce(*by);
}

void fabric_endpoint::disown_payloads(queue_pair& sender) noexcept {
  if (connection* by = state_.connection_of(sender)) ring_.references().disown(sender, *by);
}

/// Sets `by.to` to the process of a datagram's destination. If that process is dead, searches for a
/// new one once per datagram.
void fabric_endpoint::find_peer(const queue_pair& sender, connection& by,
                                const message& what) noexcept {
  const std::uint32_t slot = slot_of_number(what.destination_qpn);
  const bool same = by.to != nullptr && by.to->slot() == slot;
  if (same && by.to->state() != peer_state::dead) return;
  if (same && by.search.tried && by.search.psn == what.psn) return;
  by.search.tried = true;
  by.search.psn = what.psn;
  ring_sender::announce(by);
  by.to = state_.try_connect(slot);
  by.sent.partly = false;
  if (by.to == nullptr) return;
  if (by.to->state() == peer_state::connecting)
    state_.home.ring(sender);  // wakes the thread that services the link
}

namespace {

connection& make_connection(queue_pair& which) {
  auto* const made = new (queue_pair_block::path_room(which)) connection;
  which.path().set_state(made);
  return *made;
}

/// Notes the published line of the destination, which requests read.
void note_needed_memory(queue_pair& which, const connection& by, std::uint32_t destination) {
  if (by.to->state() == peer_state::paired)
    which.path().note_needed_memory(&by.to->segment().line(destination));
}

}  // namespace

/// Makes the connection of a queue pair that becomes ready to receive.
void fabric_endpoint::prepare(queue_pair& which, const queue_pair_attributes& next) {
  if (state_.connection_of(which) != nullptr) return;
  if (!rules_of(which.transport()).connected) {
    auto delivered = std::make_unique<std::bitset<slot_count>>();
    make_connection(which).group.delivered = std::move(delivered);
    state_.addressed.insert(endpoint_state::index_of(which));
  } else if (next.path_to_peer == path_to_peer::same_host &&
             !state_.home.numbers().is_local(next.destination_qpn)) {
    const std::uint32_t slot = slot_of_number(next.destination_qpn);
    // Before the pairing begins, so that its events find the queue pair.
    state_.connected.insert(slot, endpoint_state::index_of(which));
    auto to = state_.peer_link.connect(slot);
    connection& made = make_connection(which);
    made.to = std::move(to);
    if (made.to->state() == peer_state::paired)
      made.too_early = made.to->parts().receives.announced_records();
    ring_.references().begin(which, made);
    note_needed_memory(which, made, next.destination_qpn);
    state_.home.ring(which);  // wakes the thread that services the link
  }
}

void fabric_endpoint::changed(queue_pair& which, bool gone) noexcept {
  const queue_pair_state state = which.state();
  connection* const mine = state_.connection_of(which);
  const bool ends = gone || state == queue_pair_state::reset;
  if (ends && mine != nullptr) {
    receiver_.give_up_answer(which, *mine);
    state_.successes.forget(mine->to);
    state_.connected.erase(endpoint_state::index_of(which));
    state_.addressed.erase(endpoint_state::index_of(which));
    state_.waiting.erase(endpoint_state::index_of(which));
    which.path().set_state(nullptr);
    which.path().note_needed_memory(nullptr);
    std::destroy_at(mine);
  }
  if (gone) {
    state_.peer_link.segment().withdraw_queue_pair(which.number());
    return;
  }
  publish_queue_pair(state_.peer_link.segment(), which, state_.home.port());
}

bool fabric_endpoint::progress() noexcept {
  const link::receive_lock lock = state_.peer_link.try_lock_receive();
  if (!lock) {
    // The thread that is inside may have passed the event for which progress() was called.
    state_.set_needs_progress();
    return false;
  }
  // An exchange: what another thread stored before it set the flag again is visible below.
  if (state_.needs_progress.load(std::memory_order_relaxed) &&
      state_.needs_progress.exchange(false)) {
    state_.unfinished.store(false, std::memory_order_relaxed);
    receiver_.begin_batch();
  }
  constexpr std::size_t budget = 256;
  std::size_t received = 0;
  {
    const access_epoch::guard inside(state_.home.epoch());
    received = state_.peer_link.receive(lock, receiver_, budget);
  }
  state_.successes.flush();
  if (received > 0) receiver_.begin_batch();
  if (received == budget) state_.set_needs_progress();
  receiver_.run_answers();
  if (!state_.waiting.empty() || !state_.blocked.empty()) run_blocked(lock);
  if (state_.some_lost.load(std::memory_order_relaxed) && state_.some_lost.exchange(false))
    report_lost();
  return received > 0 || (needs_progress() && unfinished());
}

void fabric_endpoint::run_blocked(const link::receive_lock& held) noexcept {
  const access_epoch::guard inside(state_.home.epoch());
  state_.waiting.for_each_slot([&](std::uint32_t slot) {
    const bool try_now = to_try_.contains(slot);
    if (try_now) to_try_.erase(slot);
    if (try_now || state_.peer_link.may_have_room(held, slot)) run_waiting_for(slot, held);
  });
  state_.blocked.drain([&](std::uint32_t index) {
    queue_pair* which = state_.own(index);
    if (which == nullptr || which->run()) return;
    state_.blocked.insert(index);
    state_.set_needs_progress();
  });
}

/// Runs the queue pairs that wait for a process, in the order in which they began to wait, until
/// one has to wait again.
void fabric_endpoint::run_waiting_for(std::uint32_t slot, const link::receive_lock& held) noexcept {
  for (std::uint32_t left = state_.waiting.count_of(slot); left > 0; --left) {
    const auto index = state_.waiting.take_first(slot);
    if (!index) return;
    queue_pair* which = state_.own(*index);
    if (which == nullptr) continue;
    if (!which->run()) {
      state_.waiting.insert(slot, *index);
      to_try_.insert(slot);
      state_.set_needs_progress();
    } else if (state_.waiting.contains(slot, *index)) {
      // It waits again. If room has returned since, the others must run soon.
      if (left > 1 && state_.peer_link.may_have_room(held, slot)) state_.set_needs_progress();
      return;
    }
  }
}

void fabric_endpoint::after_service() noexcept {
  state_.peer_link.take_changed([this](std::uint32_t slot) {
    to_try_.insert(slot);
    changed_.insert(slot);
  });
  state_.set_some_lost();
  progress();
}

/// Ends the requests of queue pairs whose peers died. Visits only queue pairs that events concern.
void fabric_endpoint::report_lost() noexcept {
  const access_epoch::guard inside(state_.home.epoch());
  bool some_changed = false;
  changed_.drain([&](std::uint32_t slot) {
    some_changed = true;
    state_.connected.for_each(slot, [this](std::uint32_t index) { state_.lost.insert(index); });
  });
  if (some_changed)
    state_.addressed.for_each([this](std::uint32_t index) { state_.lost.insert(index); });
  state_.lost.drain([this](std::uint32_t index) {
    queue_pair* which = state_.own(index);
    if (which == nullptr || report_lost(*which)) return;
    state_.note_lost(*which);
    state_.set_needs_progress();
  });
}

/// Returns false if another thread holds a lock of the queue pair, or if memory is exhausted.
bool fabric_endpoint::report_lost(queue_pair& which) noexcept {
  const std::unique_lock send(which.send_lock(), std::try_to_lock);
  if (!send) return false;
  const std::unique_lock receive(which.receive_lock(), std::try_to_lock);
  if (!receive) return false;
  connection* mine = state_.connection_of(which);
  if (mine != nullptr) parts_.report_lost(which, *mine);
  if (mine == nullptr || mine->to == nullptr) return true;
  note_needed_memory(which, *mine, which.attributes().destination_qpn);
  if (mine->overdue && mine->to->state() == peer_state::paired) {
    mine->overdue = false;
    which.request_retry();
  }
  if (mine->to->state() != peer_state::dead) return true;
  if (is_out_of_reach(mine->to->end())) {
    // Descriptors or memory may become available. The requests' own timeouts limit the attempts.
    auto again = state_.try_connect(mine->to->slot());
    if (again == nullptr) return false;
    mine->to = std::move(again);
    mine->too_early = 0;
  } else {
    which.sender().process_lost(mine->to->slot(),
                                loss_of(*mine->to, which.attributes().destination_qpn));
  }
  mine->interrupt();
  mine->sent.position = 0;
  state_.home.ring(which);
  return true;
}

void fabric_endpoint::fence() noexcept {
  static_cast<void>(state_.peer_link.fence(deadline::never()));
}

}  // namespace verbena::softdev
