// SPDX-License-Identifier: MIT
#include "softdev/fabric/endpoint.hpp"

#include <algorithm>

#include "softdev/core/copy.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/route.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/fabric/published_views.hpp"

namespace verbena::softdev {
namespace {

using namespace records;

response silence(reason why, const message& what) noexcept {
  return {.outcome = verdict::no_answer, .why = {.why = why, .detail = what.destination_qpn}};
}

}  // namespace

response fabric_endpoint::from_overdue(const message& what) noexcept {
  return silence(reason::no_acknowledgement, what);
}

response fabric_endpoint::from_dead(const peer& to, const message& what) noexcept {
  if (is_out_of_reach(to.end())) return from_overdue(what);
  return {.outcome = verdict::peer_gone,
          .why = {.why = reason::peer_gone, .detail = what.destination_qpn}};
}

fabric_endpoint::fabric_endpoint(engine& home, link& neighbours)
    : home_(home),
      link_(neighbours),
      connections_(new std::unique_ptr<connection>[limits::queue_pair_indices]) {}

fabric_endpoint::~fabric_endpoint() = default;

fabric_endpoint_counters fabric_endpoint::counters() const noexcept {
  return {direct_.mapped(), direct_.copied(), by_ring_.load(),
          dropped_.load() + acknowledgements_.lost()};
}

response fabric_endpoint::submit(queue_pair& sender, const message& what,
                                 std::span<const segment> local, bool earlier_done) noexcept {
  connection* by = connection_of(sender.number());
  if (by == nullptr) return silence(reason::peer_unreachable, what);
  const transport_rules& rules = rules_of(what.transport);
  switch (rules.carried) {
    case carriage::parts:
      return submit_delivery(sender, *by, what, local);
    case carriage::datagrams:
      if (is_for_group(what)) return submit_to_group(sender, *by, what, local);
      find_peer(sender, *by, what);
      break;
    case carriage::stream:
      break;
  }
  peer& to = *by->to;
  if (to.state() == peer_state::connecting) wait_for_room(sender);
  switch (to.state()) {
    case peer_state::connecting:
      by->overdue = to.is_overdue();
      if (by->overdue) return from_overdue(what);
      return {.outcome = verdict::blocked};
    case peer_state::dead:
      return from_dead(to, what);
    case peer_state::paired:
      break;
  }
  acknowledgements_.flush();
  if (by->reading) return {.outcome = verdict::blocked};
  if (!rules.acknowledged) earlier_done = to.has_handled(by->handled_at);
  const bool begun = by->sending && by->sending_psn == what.psn;
  if (!begun) {
    if (const auto out = direct_.execute(sender, to, what, local, earlier_done)) return *out;
  }
  return send_by_ring(sender, *by, what, local);
}

/// Has `by.to` be the process that a datagram goes to. One that is dead is looked for once more.
void fabric_endpoint::find_peer(const queue_pair& sender, connection& by,
                                const message& what) noexcept {
  const std::uint32_t slot = what.destination_qpn / limits::queue_pair_indices;
  const bool same = by.to != nullptr && by.to->slot() == slot;
  if (same && by.to->state() != peer_state::dead) return;
  if (same && by.looking && by.looking_psn == what.psn) return;
  by.looking = true;
  by.looking_psn = what.psn;
  by.to = link_.connect(slot);
  by.sending = false;
  if (by.to->state() == peer_state::connecting) home_.ring(sender);  // wakes who services the link
}

response fabric_endpoint::send_by_ring(queue_pair& sender, connection& by, const message& what,
                                       std::span<const segment> local) noexcept {
  if (!by.sending || by.sending_psn != what.psn) {
    by.sending = false;
    by.sending_psn = what.psn;
    by.sent = 0;
  }
  const std::byte* bad = nullptr;
  pushed all = push_parts(by, what, local, bad);
  if (all == pushed::no_room) {
    // Room that came back before it was known that we wait is found by trying once more.
    wait_for_room(sender);
    all = push_parts(by, what, local, bad);
    if (all == pushed::no_room)
      return {.outcome = by.sending ? verdict::partial : verdict::blocked};
  }
  by.sending = false;
  if (all == pushed::refused) return local_fault(bad);
  if (what.opcode == opcode::rdma_read) {
    by.reading = true;
    by.reading_psn = what.psn;
  }
  if (consumes_receive(what.opcode)) signal_receiver(*by.to, by, what);
  count(by_ring_);
  return {.outcome = rules_of(what.transport).acknowledged ? verdict::pending : verdict::done};
}

/// Wakes who waits for the completion channel of the receiver's queue, once per arming. The request
/// was announced before: either we see the arming, or who armed sees the request.
void fabric_endpoint::signal_receiver(peer& to, connection& by, const message& what) noexcept {
  const queue_pair_line& line = to.segment().line(what.destination_qpn);
  const std::uint32_t word = line.arm.load(std::memory_order_seq_cst);
  const arm_state armed = arm_state_of(word);
  const bool wanted = armed == arm_state::any || (armed == arm_state::solicited && what.solicited);
  if (!wanted || (word == by.signalled && what.destination_qpn == by.signalled_qpn)) return;
  const std::uint32_t channel = line.channel.load(std::memory_order_relaxed);
  if (channel != 0 && to.signal_channel(channel)) {
    by.signalled = word;
    by.signalled_qpn = what.destination_qpn;
  }
}

/// Pushes what is left of a request. `bad` becomes the piece of it that is not accessible.
fabric_endpoint::pushed fabric_endpoint::push_parts(connection& by, const message& what,
                                                    std::span<const segment> local,
                                                    const std::byte*& bad) noexcept {
  const std::uint64_t total = is_read_or_atomic(what.opcode) ? 0 : what.length;
  const auto lock = by.to->lock_sends();
  const std::uint32_t spare = link_.options().ring_bytes / 2;
  const std::uint32_t chunk = std::min(payload_bytes, by.to->max_record() / 2);
  bool complete = false;
  while (!complete) {
    const std::uint32_t header = by.sending ? static_cast<std::uint32_t>(sizeof(fragment_header))
                                            : request_bytes(what.transport, what.opcode);
    const auto part = static_cast<std::uint32_t>(std::min<std::uint64_t>(total - by.sent, chunk));
    const auto record =
        by.to->try_reserve(by.sending ? type::fragment : type::request, header + part, spare);
    if (record.status != ring_status::ok) break;
    std::span<std::byte> room = record.payload;
    if (by.sending) {
      put(room,
          fragment_header{what.destination_qpn, what.source_qpn, what.psn, what.attempt, by.sent});
    } else {
      put_request(room, what);
    }
    bad = put_payload(room.first(part), local, by.sent);
    if (bad != nullptr) break;
    by.to->commit();
    by.sending = true;
    by.sent += part;
    complete = by.sent == total;
  }
  by.handled_at = by.to->position();
  by.to->announce();
  if (bad != nullptr) return pushed::refused;
  return complete ? pushed::all : pushed::no_room;
}

void fabric_endpoint::wait_for_room(const queue_pair& which) noexcept {
  blocked_.insert(index_of(which));
}

void fabric_endpoint::changed(queue_pair& which, bool gone) noexcept {
  const queue_pair_attributes& attributes = which.attributes();
  const queue_pair_state state = which.state();
  auto& mine = connections_[index_of(which)];
  const bool ends = gone || state == queue_pair_state::reset;
  if (ends && mine != nullptr) {
    acknowledgements_.forget(mine->to);
    connected_.erase(index_of(which));
    mine.reset();
  }
  if (gone) {
    link_.segment().withdraw_queue_pair(which.number());
    return;
  }
  const bool connected = rules_of(which.transport()).connected;
  if (state == queue_pair_state::rtr && mine == nullptr && !connected) {
    mine = std::make_unique<connection>();
  } else if (state == queue_pair_state::rtr && mine == nullptr &&
             attributes.destination_is_this_host && !home_.is_local(attributes.destination_qpn)) {
    mine = std::make_unique<connection>();
    mine->to = link_.connect(attributes.destination_qpn / limits::queue_pair_indices);
    home_.ring(which);  // wakes the thread that services the link
  }
  if (mine != nullptr) connected_.insert(index_of(which));
  publish_queue_pair(link_.segment(), which, home_.port());
}

void fabric_endpoint::fence() noexcept { static_cast<void>(link_.fence(deadline::never())); }

bool fabric_endpoint::progress() noexcept {
  const link::receive_lock lock = link_.try_lock_receive();
  if (!lock) {
    // Who is inside may have passed what we were called for.
    restless_.store(true, std::memory_order_release);
    return false;
  }
  restless_.store(false, std::memory_order_relaxed);
  constexpr std::size_t budget = 256;
  const std::size_t received = link_.receive(
      lock, [this](peer& from, const ring_record& record) { return receive_one(from, record); },
      budget);
  acknowledgements_.flush();
  if (received == budget) restless_.store(true, std::memory_order_release);
  if (!answering_.empty()) run_answering();
  if (!blocked_.empty()) run_blocked();
  if (some_lost_.load(std::memory_order_relaxed)) tell_lost();
  return received > 0;
}

void fabric_endpoint::run_blocked() noexcept {
  const access_epoch::guard inside(home_.epoch());
  blocked_.drain([&](std::uint32_t index) {
    queue_pair* which = own(index);
    if (which == nullptr || which->run()) return;
    blocked_.insert(index);
    restless_.store(true, std::memory_order_release);
  });
}

void fabric_endpoint::after_service() noexcept {
  some_lost_.store(true, std::memory_order_release);
  progress();
}

/// Ends the requests of queue pairs whose peers died.
void fabric_endpoint::tell_lost() noexcept {
  some_lost_.store(false, std::memory_order_release);
  const access_epoch::guard inside(home_.epoch());
  connected_.for_each([this](std::uint32_t index) {
    queue_pair* which = own(index);
    if (which == nullptr || tell_lost(*which)) return;
    some_lost_.store(true, std::memory_order_release);
    restless_.store(true, std::memory_order_release);
  });
}

/// False when a lock was taken.
bool fabric_endpoint::tell_lost(queue_pair& which) noexcept {
  const std::unique_lock send(which.send_lock(), std::try_to_lock);
  if (!send) return false;
  const std::unique_lock receive(which.receive_lock(), std::try_to_lock);
  if (!receive) return false;
  connection* mine = connection_of(which.number());
  if (mine != nullptr) tell_deliveries_lost(which, *mine);
  if (mine == nullptr || mine->to == nullptr) return true;
  if (mine->overdue && mine->to->state() == peer_state::paired) {
    mine->overdue = false;
    which.request_retry();
  }
  if (mine->to->state() != peer_state::dead) return true;
  if (is_out_of_reach(mine->to->end())) {
    // Descriptors or memory may come back. The requests' own timeouts say when it is enough.
    mine->to = link_.connect(mine->to->slot());
  } else {
    which.sender().process_lost(
        mine->to->slot() * limits::queue_pair_indices,
        {.why = reason::peer_gone, .detail = which.attributes().destination_qpn});
  }
  mine->sending = mine->reading = mine->answering = false;
  mine->handled_at = 0;
  home_.ring(which);
  return true;
}

}  // namespace verbena::softdev
