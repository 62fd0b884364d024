// SPDX-License-Identifier: MIT
// The receiving side of the path: requests and their fragments to responders, answers and data to
// requesters. Runs in link::receive. Nothing here waits: a record whose queue pair is in use, or
// whose answer has no room, is kept at the head of its ring.
#include <algorithm>
#include <mutex>

#include "softdev/core/copy.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/route.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/fabric/endpoint.hpp"

namespace verbena::softdev {
namespace {

using namespace records;

/// Takes a lock that is held for long only by somebody who should not be waited for.
std::unique_lock<biased_lock> try_for_a_while(biased_lock& lock) noexcept {
  for (int attempt = 0; attempt < 200; ++attempt)
    if (lock.try_lock()) return {lock, std::adopt_lock};
  return {};
}

/// True if the fragment is the next part of the current message.
bool continues(const responder& receiver, const fragment_header& header) noexcept {
  if (!receiver.busy()) return false;
  const message& current = receiver.current();
  return current.source_qpn == header.source_qpn && current.psn == header.psn &&
         current.attempt == header.attempt && receiver.placed() == header.offset;
}

request_id request_of(const fragment_header& header) noexcept {
  return {header.source_qpn, header.psn, static_cast<std::uint16_t>(header.attempt)};
}

}  // namespace

handled fabric_endpoint::keep() noexcept {
  restless_.store(true, std::memory_order_release);
  return handled::keep;
}

handled fabric_endpoint::drop() noexcept {
  count(dropped_);
  return handled::consumed;
}

bool fabric_endpoint::room_for_answer(peer& to) noexcept {
  // Only answers use this half of the ring, and only the thread that receives answers.
  if (to.has_room(longest_answers)) return true;
  const auto lock = to.lock_sends();
  return to.try_reserve(type::answer, longest_answers).status == ring_status::ok;
}

void fabric_endpoint::answer(peer& to, const message& what, const response& outcome) noexcept {
  if (!rules_of(what.transport).acknowledged) return;
  acknowledgements_.flush();
  if (!send_answer(to, what, outcome)) count(dropped_);
}

bool fabric_endpoint::comes_from(const peer& from, std::uint32_t qpn) noexcept {
  return qpn / limits::queue_pair_indices == from.slot();
}

handled fabric_endpoint::receive_one(peer& from, const ring_record& record) noexcept {
  switch (record.type) {
    case type::request:
      return receive_request(from, record.payload);
    case type::fragment:
      return receive_fragment(from, record.payload);
    case type::answer:
      return receive_answer(from, record.payload);
    case type::data:
      return receive_data(from, record.payload);
    default:
      return handled::broken;
  }
}

handled fabric_endpoint::receive_request(peer& from, std::span<const std::byte> bytes) noexcept {
  message what;
  if (!take_request(bytes, what) || !comes_from(from, what.source_qpn)) return handled::broken;
  const bool acknowledged = rules_of(what.transport).acknowledged;
  if (acknowledged && !room_for_answer(from)) return handled::keep;
  const access_epoch::guard inside(home_.epoch());
  queue_pair* target = home_.find(what.destination_qpn);
  const auto silence = [&](reason why, std::uint32_t extra) {
    if (!acknowledged)
      (target != nullptr ? target->drops() : home_.drops())
          .note({.why = why, .detail = what.destination_qpn, .extra = extra});
    answer(from, what,
           {.outcome = verdict::no_answer,
            .why = {.why = why, .detail = what.destination_qpn, .extra = extra}});
    return handled::consumed;
  };
  if (target == nullptr) {
    if (is_for_group(what)) return receive_for_group(from, what, bytes);
    return silence(reason::peer_unknown, 0);
  }
  const auto lock = try_for_a_while(target->receive_lock());
  if (!lock) return keep();
  const connection* by = connection_of(target->number());
  if (rules_of(target->transport()).connected) {
    if (by == nullptr || by->to.get() != &from)
      return silence(reason::peer_not_ready, static_cast<std::uint32_t>(target->state()));
    if (by->answering) return keep();
  } else if (rules_of(what.transport).carried == carriage::parts) {
    receive_delivery(*target, from, what, bytes);
    return handled::consumed;
  }
  begin_request(*target, from, what, bytes);
  return handled::consumed;
}

void fabric_endpoint::begin_request(queue_pair& target, peer& from, const message& what,
                                    std::span<const std::byte> payload) noexcept {
  responder& receiver = target.receiver();
  const response outcome = receiver.begin(what);
  if (outcome.outcome != verdict::done) return answer(from, what, outcome);
  if (is_atomic(what.opcode)) return answer(from, what, receiver.finish());
  if (what.opcode == opcode::rdma_read)
    begin_answering(target);
  else
    go_on(target, from, payload);
  receiver.keep();
}

/// Places the next part of the current message; the last one ends it. Success is due before a
/// program can see the completion, or its reply could come first.
void fabric_endpoint::go_on(queue_pair& target, peer& from,
                            std::span<const std::byte> payload) noexcept {
  responder& receiver = target.receiver();
  const message& what = receiver.current();
  response outcome = receiver.place(payload);
  if (outcome.outcome == verdict::done) {
    if (receiver.placed() < what.length) return;
    if (rules_of(what.transport).acknowledged)
      acknowledgements_.add(connection_of(target.number())->to, what);
    outcome = receiver.finish();
  }
  if (outcome.outcome != verdict::done) answer(from, what, outcome);
}

handled fabric_endpoint::receive_fragment(peer& from, std::span<const std::byte> bytes) noexcept {
  const auto header = take<fragment_header>(bytes);
  if (!header || !comes_from(from, header->source_qpn) || bytes.empty()) return handled::broken;
  if (!room_for_answer(from)) return handled::keep;
  const access_epoch::guard inside(home_.epoch());
  queue_pair* target = home_.find(header->destination_qpn);
  if (target == nullptr) return drop();
  const auto lock = try_for_a_while(target->receive_lock());
  if (!lock) return keep();
  const connection* by = connection_of(target->number());
  const bool connected = by != nullptr && by->to.get() == &from && !by->answering;
  const bool comes_here = connected || !rules_of(target->transport()).connected;
  // Else it is the rest of a message that was refused.
  if (!comes_here || !continues(target->receiver(), *header)) return drop();
  go_on(*target, from, bytes);
  return handled::consumed;
}

void fabric_endpoint::begin_answering(queue_pair& target) noexcept {
  connection& by = *connection_of(target.number());
  by.answering = true;
  by.answered = 0;
  go_on_answering(target);
}

/// Goes on with the answer of a read. If it has to wait for room, `run_answering` goes on with it.
void fabric_endpoint::go_on_answering(queue_pair& target) noexcept {
  // Before it is tried, or room that comes back meanwhile would be missed.
  answering_.insert(index_of(target));
  connection& by = *connection_of(target.number());
  responder& receiver = target.receiver();
  if (!receiver.busy()) {
    by.answering = false;
    return;
  }
  const message& what = receiver.current();
  if (!room_for_answer(*by.to)) return;
  switch (push_data(target, by)) {
    case pushed::no_room:
      return;
    case pushed::refused:
      break;
    case pushed::all:
      answer(*by.to, what, receiver.finish());
  }
  by.answering = false;
}

fabric_endpoint::pushed fabric_endpoint::push_data(queue_pair& target, connection& by) noexcept {
  responder& receiver = target.receiver();
  const message& what = receiver.current();
  const std::uint32_t spare = link_.options().ring_bytes / 2;
  const std::uint64_t chunk = std::min(payload_bytes, by.to->max_record() / 2);
  pushed result = pushed::all;
  while (by.answered < what.length && result == pushed::all) {
    const std::uint64_t part = std::min<std::uint64_t>(what.length - by.answered, chunk);
    segment source;
    const response outcome = receiver.read(by.answered, part, source);
    if (outcome.outcome != verdict::done) {
      answer(*by.to, what, outcome);
      return pushed::refused;
    }
    auto lock = by.to->lock_sends();
    const auto record = by.to->try_reserve(
        type::data, static_cast<std::uint32_t>(sizeof(fragment_header) + part), spare);
    if (record.status == ring_status::ok) {
      std::span<std::byte> room = record.payload;
      put(room, fragment_header{what.source_qpn, what.destination_qpn, what.psn, what.attempt,
                                by.answered});
      if (copy_payload(room.data(), source.data, part) != copy_fault::none) {
        by.to->announce();
        lock.unlock();
        answer(*by.to, what, receiver.refuse_unmapped(by.answered, part));
        return pushed::refused;
      }
      by.to->commit();
      by.answered += part;
    } else {
      result = pushed::no_room;
    }
    by.to->announce();
  }
  return result;
}

void fabric_endpoint::run_answering() noexcept {
  const access_epoch::guard inside(home_.epoch());
  answering_.drain([&](std::uint32_t index) {
    queue_pair* target = own(index);
    if (target == nullptr) return;
    const auto lock = try_for_a_while(target->receive_lock());
    if (!lock) {
      restless_.store(true, std::memory_order_release);
      answering_.insert(index);
      return;
    }
    const connection* by = connection_of(target->number());
    if (by != nullptr && by->answering) go_on_answering(*target);
  });
}

handled fabric_endpoint::receive_answer(peer& from, std::span<const std::byte> bytes) noexcept {
  const auto taken = take_answer(bytes);
  if (!taken || !comes_from(from, taken->to.source_qpn)) return handled::broken;
  const access_epoch::guard inside(home_.epoch());
  queue_pair* asked = home_.find(taken->to.destination_qpn);
  if (asked == nullptr) return drop();
  const auto lock = try_for_a_while(asked->send_lock());
  if (!lock) return keep();
  connection* by = connection_of(asked->number());
  if (by == nullptr || (by->to != nullptr && by->to.get() != &from)) return drop();
  if (!asked->sender().answer(request_of(taken->to), taken->what)) return drop();
  // Anything but success ends or begins anew what was under way after it, too.
  if (taken->what.outcome != verdict::done) by->sending = by->reading = false;
  if (by->reading && by->reading_psn == taken->to.psn) by->reading = false;
  asked->sender().run();
  return handled::consumed;
}

handled fabric_endpoint::receive_data(peer& from, std::span<const std::byte> bytes) noexcept {
  const auto header = take<fragment_header>(bytes);
  if (!header || !comes_from(from, header->source_qpn)) return handled::broken;
  const access_epoch::guard inside(home_.epoch());
  queue_pair* asked = home_.find(header->destination_qpn);
  if (asked == nullptr) return drop();
  const auto lock = try_for_a_while(asked->send_lock());
  if (!lock) return keep();
  const connection* by = connection_of(asked->number());
  if (by == nullptr || (by->to != nullptr && by->to.get() != &from)) return drop();
  if (!asked->sender().place(request_of(*header), header->offset, bytes)) return drop();
  return handled::consumed;
}

}  // namespace verbena::softdev
