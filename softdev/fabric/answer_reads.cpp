// SPDX-License-Identifier: MIT
#include "softdev/fabric/answer_reads.hpp"

#include <algorithm>

#include "softdev/core/copy.hpp"
#include "softdev/fabric/records.hpp"

namespace verbena::softdev {

using namespace records;

void read_answerer::begin(queue_pair& target) noexcept {
  connection& by = *state_.connection_of(target);
  const message& what = target.receiver().current();
  by.answer.waits = true;
  by.answer.attempt = what.attempt;
  by.answer.psn = what.psn;
  by.answer.source_qpn = what.source_qpn;
  by.answer.bytes = 0;
  go_on(target);
}

/// Continues the answer to a read. If there is no room, run() continues it later.
void read_answerer::go_on(queue_pair& target) noexcept {
  // Before the attempt: room that returns during the attempt must not be missed.
  waiting_.insert(endpoint_state::index_of(target));
  connection& by = *state_.connection_of(target);
  responder& receiver = target.receiver();
  if (!endpoint_state::room_for_answer(*by.to)) return;
  if (!receiver.busy()) return give_up(target, by);
  const message& what = receiver.current();
  switch (push_data(target, by)) {
    case pushed::no_room:
      return;
    case pushed::refused:
      break;
    case pushed::all:
      state_.answer(*by.to, what, receiver.finish());
  }
  by.answer.waits = false;
}

void read_answerer::give_up(const queue_pair& target, connection& by) noexcept {
  message what;
  what.opcode = opcode::rdma_read;
  what.transport = target.transport();
  what.attempt = by.answer.attempt;
  what.source_qpn = by.answer.source_qpn;
  what.destination_qpn = target.number();
  what.psn = by.answer.psn;
  by.answer.waits = false;
  state_.answer(*by.to, what,
                {.outcome = verdict::no_answer,
                 .why = {.why = reason::peer_not_ready,
                         .detail = what.destination_qpn,
                         .extra = static_cast<std::uint32_t>(target.state())}});
}

pushed read_answerer::push_data(queue_pair& target, connection& by) noexcept {
  responder& receiver = target.receiver();
  const message& what = receiver.current();
  const std::uint32_t spare = state_.reserve_for_answers();
  const std::uint64_t chunk = std::min(payload_bytes, by.to->max_record() / 2);
  pushed result = pushed::all;
  while (by.answer.bytes < what.length && result == pushed::all) {
    const std::uint64_t part = std::min<std::uint64_t>(what.length - by.answer.bytes, chunk);
    segment source;
    const response outcome = receiver.read(by.answer.bytes, part, source);
    if (outcome.outcome != verdict::done) {
      state_.answer(*by.to, what, outcome);
      return pushed::refused;
    }
    auto lock = by.to->lock_sends();
    const auto record = by.to->try_reserve(
        type::data, static_cast<std::uint32_t>(sizeof(fragment_header) + part), spare);
    if (record.status == ring_status::ok) {
      std::span<std::byte> room = record.payload;
      put(room, fragment_header{what.source_qpn, what.destination_qpn, what.psn, what.attempt,
                                by.answer.bytes});
      if (copy_payload(room.data(), source.data, part) != copy_fault::none) {
        by.to->announce();
        lock.unlock();
        state_.answer(*by.to, what, receiver.refuse_unmapped(by.answer.bytes, part));
        return pushed::refused;
      }
      by.to->commit();
      by.answer.bytes += part;
    } else {
      result = pushed::no_room;
    }
    by.to->announce();
  }
  return result;
}

void read_answerer::run_waiting() noexcept {
  const access_epoch::guard inside(state_.home.epoch());
  waiting_.drain([&](std::uint32_t index) {
    queue_pair* target = state_.own(index);
    if (target == nullptr) return;
    const auto lock = try_for_a_while(target->receive_lock());
    if (!lock) {
      state_.set_needs_progress();
      waiting_.insert(index);
      return;
    }
    const connection* by = state_.connection_of(*target);
    if (by != nullptr && by->answer.waits) go_on(*target);
  });
}

}  // namespace verbena::softdev
