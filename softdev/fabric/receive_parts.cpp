// SPDX-License-Identifier: MIT
#include "softdev/fabric/receive_parts.hpp"

#include "softdev/core/copy.hpp"
#include "softdev/fabric/records.hpp"
#include "softdev/fabric/send_parts.hpp"

namespace verbena::softdev {

using namespace records;

void part_receiver::receive(queue_pair& target, peer& from, const message& what,
                            std::span<const std::byte> payload) noexcept {
  responder& receiver = target.receiver();
  response outcome = receiver.begin(what);
  if (outcome.outcome != verdict::done) return state_.answer(from, what, outcome);
  if (what.opcode == opcode::rdma_read) return answer_read(target, from, what);
  outcome = receiver.place(payload);
  // Before a program can see the completion; otherwise the program's reply could be sent first.
  state_.answer(from, what, outcome);
  if (outcome.outcome == verdict::done) static_cast<void>(receiver.finish());
}

void part_receiver::answer_read(queue_pair& target, peer& from, const message& what) noexcept {
  responder& receiver = target.receiver();
  if (what.length > longest_part(from, what.transport)) {
    static_cast<void>(receiver.interrupt(nullptr));
    return state_.answer(
        from, what,
        {.outcome = verdict::invalid_request,
         .why = {.why = reason::bad_request, .detail = what.source_qpn, .extra = what.psn}});
  }
  segment source{nullptr, 0};
  response outcome = receiver.read(0, what.length, source);
  if (outcome.outcome == verdict::done && source.bytes > 0) {
    const auto lock = from.lock_sends();
    const auto bytes = static_cast<std::uint32_t>(sizeof(fragment_header) + source.bytes);
    const auto record = from.try_reserve(type::data, bytes, state_.reserve_for_answers());
    if (record.status == ring_status::ok) {
      std::span<std::byte> room = record.payload;
      put(room, fragment_header{what.source_qpn, what.destination_qpn, what.psn, what.attempt, 0});
      if (copy_payload(room.data(), source.data, source.bytes) == copy_fault::none)
        from.commit();
      else
        outcome = receiver.refuse_unmapped(0, source.bytes);
    } else {
      static_cast<void>(receiver.interrupt(nullptr));
      outcome = {.outcome = verdict::blocked};
    }
    from.announce();
  }
  if (outcome.outcome == verdict::done) outcome = receiver.finish();
  state_.answer(from, what, outcome);
}

}  // namespace verbena::softdev
