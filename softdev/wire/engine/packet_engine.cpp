// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/packet_engine.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "softdev/core/process_slot.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/route.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/wire/engine/answer_pace.hpp"
#include "softdev/wire/engine/datagrams.hpp"
#include "softdev/wire/engine/message_packets.hpp"
#include "softdev/wire/engine/packet_requester.hpp"
#include "softdev/wire/engine/packet_responder.hpp"
#include "softdev/wire/engine/selective_packets.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::softdev::wire {

/// The packet state of a queue pair that can receive.
struct packet_connection {
  packet_requester requests;
  packet_responder answers;
  answer_pace pace{};
  std::atomic<time_ns> last_notification{0};  ///< when the last CNP was sent; 0: never
};

namespace {

/// The minimum time between two CNPs of a queue pair.
constexpr time_ns notification_interval = 50'000;

bool is_of(transport expected, packet_opcode code) noexcept {
  switch (transport_of(code)) {
    case packet_transport::rc:
      return expected == transport::rc;
    case packet_transport::uc:
      return expected == transport::uc;
    case packet_transport::ud:
      return expected == transport::ud;
    default:
      return false;
  }
}

/// Returns whether the packet has the partition of the queue pair. Counts a packet that does not.
/// Over UC, the first packet of a message also counts as a dropped message.
bool is_of_partition(queue_pair& which, const packet& what) noexcept {
  port_state& port = which.home().port();
  const std::uint16_t own = port.pkey(which.attributes().pkey_index);
  if (same_partition(what.pkey, own)) return true;
  constexpr reason why = reason::partition_mismatch;
  port.note_drop(why);
  if (!rules_of(which.transport()).acknowledged && role_of(what.opcode).begins())
    which.diagnosis().drops.note({.why = why, .detail = what.pkey, .extra = own});
  return false;
}

/// Calls `run` for each queue pair of the set, beginning with index `next`. `run` returns false if
/// the queue pair has more to send. Then `next` becomes the first such queue pair, or the one after
/// it if `out` had room for it, so that all of them get room in turn.
template <class Run>
void run_in_turn(active_set& set, std::uint32_t& next, packet_output& out, Run run) noexcept {
  bool is_last = false;
  set.drain_from(next, [&](std::uint32_t index) {
    const bool had_room = is_last || out.has_room();
    if (run(index) || is_last) return;
    is_last = true;
    next = had_room ? (index + 1) % limits::queue_pair_indices : index;
  });
}

}  // namespace

packet_engine::packet_engine(engine& home, std::uint32_t process_slot, packet_output& out,
                             const packet_engine_options& options)
    : home_(home), out_(out), slot_(process_slot), options_(options) {
  home.routes().set_remote(this);
}

packet_engine::~packet_engine() {
  VERBENA_ASSERT(connections_ == 0, "a queue pair that receives refers to the path");
  if (home_.routes().remote() == this) home_.routes().set_remote(nullptr);
}

packet_connection* packet_engine::connection_of(const queue_pair& which) noexcept {
  return static_cast<packet_connection*>(which.path().packets());
}

queue_pair* packet_engine::own(std::uint32_t index) const noexcept {
  return home_.find(number_at(slot_, index));
}

void packet_engine::prepare(queue_pair& which, const queue_pair_attributes& next) {
  if (!rules_of(which.transport()).connected) return;
  const std::uint32_t mtu = bytes_of_mtu(next.path_mtu);
  const std::lock_guard lock(creation_);
  timers_.reserve(connections_ + 1);
  which.path().set_packets(new packet_connection{
      .requests = {which, mtu, out_, {options_.selective_repeat, options_.larger_windows}},
      .answers = {which, next, mtu, reordered_}});
  ++connections_;
}

/// Sends the ACK of a message that the program can have received, if there is room.
void packet_engine::before_reset(queue_pair& which) noexcept {
  if (packet_connection* const by = connection_of(which))
    static_cast<void>(by->answers.put_last_answer(out_));
}

void packet_engine::changed(queue_pair& which, bool gone) noexcept {
  const std::uint32_t index = index_of_number(which.number());
  if (!gone && which.state() != queue_pair_state::reset) {
    // The receive lock is possibly not held: `put_answers` releases the kept packets.
    if (which.state() == queue_pair_state::error && connection_of(which) != nullptr)
      answering_.insert(index);
    return;
  }
  waiting_.erase(index);
  packet_connection* const by = connection_of(which);
  if (by == nullptr) return;
  if (gone) before_reset(which);
  timers_.cancel(index);
  answering_.erase(index);
  postponed_.erase(index);
  which.path().set_packets(nullptr);
  delete by;
  const std::lock_guard lock(creation_);
  --connections_;
}

response packet_engine::submit(queue_pair& sender, const message& what,
                               std::span<const segment> local, bool /*earlier_done*/) noexcept {
  packet_connection* const by = connection_of(sender);
  if (by == nullptr)
    return rules_of(what.transport).routed ? submit_datagram(sender, what, local)
                                           : without_answer(reason::peer_unreachable, what);
  if (by->pace.is_awaited(what.psn)) by->pace.note_request(home_.now());
  const response taken = by->requests.submit(what, local);
  after_requests(sender, *by);
  return taken;
}

response packet_engine::submit_datagram(queue_pair& sender, const message& what,
                                        std::span<const segment> local) noexcept {
  if (out_.has_room()) return put_datagram(what, local, out_);
  waiting_.insert(index_of_number(sender.number()));
  return {.outcome = verdict::blocked};
}

/// Updates the timer and the list of queue pairs that wait for room.
void packet_engine::after_requests(queue_pair& which, packet_connection& by) noexcept {
  const std::uint32_t index = index_of_number(which.number());
  if (by.requests.deadline() != never && timers_.schedule(index, by.requests.deadline()))
    out_.deadline_changed();
  if (by.requests.waits_for_room()) waiting_.insert(index);
}

bool packet_engine::receive(const packet& what, bool marked) noexcept {
  const access_epoch::guard inside(home_.epoch());
  queue_pair* const which = home_.find(what.destination_qpn);
  if (which == nullptr) return true;
  if (what.opcode == packet_opcode::congestion_notification) {
    receive_notification(*which, what);
    return true;
  }
  if (what.opcode == packet_opcode::selective_offer ||
      what.opcode == packet_opcode::selective_acknowledgement)
    return receive_selective(*which, what);
  if (!is_of(which->transport(), what.opcode)) return true;
  const bool acknowledged = rules_of(which->transport()).acknowledged;
  marked = marked && !what.payload.empty();
  if (acknowledged && is_response(what.opcode)) return receive_response(*which, what, marked);
  const auto lock = try_for_a_while(which->receive_lock());
  if (!lock) return false;
  packet_connection* const by = connection_of(*which);
  if (by == nullptr || !is_of_partition(*which, what)) return true;
  if (marked && which->state() != queue_pair_state::error) send_cnp(*which, *by);
  if (!acknowledged) {
    by->answers.receive_unreliable(what);
    return true;
  }
  by->answers.receive(what, out_);
  answer(*which, *by);
  return true;
}

/// The queue pair has received a request packet: schedules its response.
void packet_engine::answer(const queue_pair& which, packet_connection& by) noexcept {
  const std::uint32_t index = index_of_number(which.number());
  if (by.answers.can_postpone() && by.pace.note_message(home_.now())) {
    postponed_.insert(index);
  } else {
    postponed_.erase(index);
    answering_.insert(index);
  }
}

bool packet_engine::receive_selective(queue_pair& which, const packet& what) noexcept {
  if (!options_.selective_repeat || which.transport() != transport::rc) return true;
  if (is_selective_acknowledgement(what) || (options_.larger_windows && is_window_grant(what)))
    return receive_response(which, what, false);
  const bool is_of_window = options_.larger_windows && is_window_offer(what);
  if (!is_of_window && !is_selective_offer(what)) return true;
  const auto lock = try_for_a_while(which.receive_lock());
  if (!lock) return false;
  packet_connection* const by = connection_of(which);
  if (by == nullptr || !is_of_partition(which, what)) return true;
  if (!is_of_window) {
    by->answers.use_selective_repeat(what.psn);
    return true;
  }
  by->answers.use_larger_window(what.psn);
  answering_.insert(index_of_number(which.number()));
  return true;
}

/// Ignores the CNP if another thread holds the lock: persistent congestion causes further CNPs.
void packet_engine::receive_notification(queue_pair& which, const packet& what) noexcept {
  bool handled = false;
  if (rules_of(which.transport()).acknowledged) {
    const auto lock = try_for_a_while(which.send_lock());
    packet_connection* const by = lock ? connection_of(which) : nullptr;
    handled = by != nullptr && is_of_partition(which, what) && by->requests.handle_cnp();
  }
  out_.count(handled ? packet_event::notification_handled : packet_event::notification_ignored);
}

/// Sends a CNP. The caller holds a lock of the queue pair.
void packet_engine::send_cnp(const queue_pair& which, packet_connection& by) noexcept {
  const time_ns now = home_.now();
  time_ns last = by.last_notification.load(std::memory_order_relaxed);
  if ((last != 0 && now - last < notification_interval) || !out_.has_room() ||
      !by.last_notification.compare_exchange_strong(last, now, std::memory_order_relaxed))
    return;
  static constexpr std::array<std::byte, congestion_payload_bytes> zeros{};
  packet made{.opcode = packet_opcode::congestion_notification};
  made.becn = true;
  address_to_peer(which, made);
  made.payload = zeros;
  static_cast<void>(out_.put(which, made));
  out_.count(packet_event::notification_sent);
}

bool packet_engine::receive_datagram(const packet& what, const network_header& from) noexcept {
  const access_epoch::guard inside(home_.epoch());
  queue_pair* const which = home_.find(what.destination_qpn);
  if (which == nullptr || which->transport() != transport::ud || !is_of(transport::ud, what.opcode))
    return true;
  const auto lock = try_for_a_while(which->receive_lock());
  if (!lock) return false;
  take_datagram(*which, what, from);
  return true;
}

std::size_t packet_engine::find_members(
    const network_address& group,
    std::span<std::uint32_t, limits::max_group_members> out) const noexcept {
  const access_epoch::guard inside(home_.epoch());
  const auto members = home_.groups().members(group);
  const std::size_t count = std::min(members.size(), out.size());
  std::copy_n(members.begin(), count, out.begin());
  return count;
}

bool packet_engine::receive_response(queue_pair& which, const packet& what, bool marked) noexcept {
  const auto lock = try_for_a_while(which.send_lock());
  if (!lock) return false;
  packet_connection* const by = connection_of(which);
  if (by == nullptr || !is_of_partition(which, what)) return true;
  if (marked) {
    by->requests.handle_cnp();
    send_cnp(which, *by);
  }
  by->requests.receive(what);
  which.sender().run();
  after_requests(which, *by);
  return true;
}

void packet_engine::transmit(ack_time acks) noexcept {
  if (acks == ack_time::at_once && has_postponed()) put_postponed();
  if (!wants_to_transmit()) return;
  const access_epoch::guard inside(home_.epoch());
  const bool requests_first = std::exchange(next_.requests_first, false);
  if (requests_first) run_waiting();
  if (!answering_.empty())
    run_in_turn(answering_, next_.answering, out_,
                [this](std::uint32_t index) { return put_answers(index); });
  // If the responses have taken all room, the next room is for requests.
  if (!requests_first && !run_waiting()) next_.requests_first = true;
}

/// Runs the requests that wait for room in the output. Returns false if it has no room.
bool packet_engine::run_waiting() noexcept {
  if (waiting_.empty()) return true;
  if (!out_.has_room()) return false;
  run_in_turn(waiting_, next_.waiting, out_,
              [this](std::uint32_t index) { return run_waiting(index); });
  return true;
}

void packet_engine::put_postponed() noexcept {
  const access_epoch::guard inside(home_.epoch());
  postponed_.drain([this](std::uint32_t index) { put_answers(index); });
}

/// Returns false if the queue pair has more to send.
bool packet_engine::put_answers(std::uint32_t index) noexcept {
  queue_pair* const which = own(index);
  if (which == nullptr) return true;
  const auto lock = try_for_a_while(which->receive_lock());
  packet_connection* const by = lock ? connection_of(*which) : nullptr;
  const bool all = lock && (by == nullptr || by->answers.put_answers(out_));
  if (!all) answering_.insert(index);
  return all;
}

/// Returns false if the queue pair may have more to send.
bool packet_engine::run_waiting(std::uint32_t index) noexcept {
  queue_pair* const which = own(index);
  if (which == nullptr) return true;
  if (const auto lock = try_for_a_while(which->send_lock())) {
    which->sender().run();
    return out_.has_room();
  }
  waiting_.insert(index);
  return false;
}

void packet_engine::expire(time_ns now) noexcept {
  if (timers_.earliest() > now) return;
  const access_epoch::guard inside(home_.epoch());
  std::array<std::uint32_t, 64> due;
  std::size_t count = due.size();
  while (count == due.size()) {
    count = timers_.take_due(now, due);
    for (const std::uint32_t index : std::span(due).first(count)) expire(index);
  }
}

void packet_engine::expire(std::uint32_t index) noexcept {
  queue_pair* const which = own(index);
  if (which == nullptr) return;
  const auto lock = try_for_a_while(which->send_lock());
  if (!lock) {
    constexpr time_ns soon = 50'000;
    timers_.schedule(index, home_.now() + soon);
    return;
  }
  packet_connection* const by = connection_of(*which);
  if (by == nullptr) return;
  by->requests.expire();
  which->sender().run();
  after_requests(*which, *by);
}

}  // namespace verbena::softdev::wire
