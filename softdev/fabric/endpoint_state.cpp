// SPDX-License-Identifier: MIT
#include "softdev/fabric/endpoint_state.hpp"

#include <new>

#include "softdev/core/route.hpp"
#include "softdev/core/transport/rules.hpp"

namespace verbena::softdev {

endpoint_state::endpoint_state(engine& of, link& to) : home(of), peer_link(to) {}

std::shared_ptr<peer> endpoint_state::try_connect(std::uint32_t slot) noexcept {
  try {
    return peer_link.connect(slot);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool endpoint_state::room_for_answer(peer& to) noexcept {
  if (to.has_room(longest_answers)) return true;
  const auto lock = to.lock_sends();
  return to.try_reserve(records::answer, longest_answers).status == ring_status::ok;
}

void endpoint_state::answer(peer& to, const message& what, const response& outcome) noexcept {
  if (!rules_of(what.transport).acknowledged) return;
  successes.flush();
  if (!send_answer(to, what, outcome)) note_dropped();
}

response from_overdue(const message& what) noexcept {
  return without_answer(reason::no_acknowledgement, what);
}

response from_dead(const peer& to, const message& what) noexcept {
  if (is_out_of_reach(to.end())) return from_overdue(what);
  return {.outcome = verdict::peer_gone, .why = loss_of(to, what.destination_qpn)};
}

failure loss_of(const peer& to, std::uint32_t qp_num) noexcept {
  static_assert(static_cast<std::uint32_t>(peer_end::exited) ==
                    static_cast<std::uint32_t>(peer_loss::ended) &&
                static_cast<std::uint32_t>(peer_end::message_lost) ==
                    static_cast<std::uint32_t>(peer_loss::message_lost));
  return {.why = reason::peer_gone,
          .key = static_cast<std::uint32_t>(to.end()),
          .detail = qp_num,
          .extra = static_cast<std::uint32_t>(to.pid())};
}

}  // namespace verbena::softdev
