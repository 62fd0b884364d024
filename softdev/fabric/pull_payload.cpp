// SPDX-License-Identifier: MIT
// Order of the checks: the generation, before the request has an effect; the checks of the
// responder; for each element, region and mapping before the copy, and the region again after it;
// the generation again, before the request is done. If generation and regions did not change, the
// copied bytes are the payload.
#include "softdev/fabric/pull_payload.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "softdev/core/queue_pair.hpp"
#include "softdev/core/region_check.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/fabric/published_views.hpp"

namespace verbena::softdev {
namespace {

using namespace records;

constexpr std::uint64_t bytes_per_batch = 262'144;

/// Returns whether the responder has begun the request and continues with it.
bool has_begun_request(const responder& receiver, const message& what) noexcept {
  if (!receiver.busy()) return false;
  const message& current = receiver.current();
  return current.source_qpn == what.source_qpn && current.psn == what.psn &&
         current.attempt == what.attempt && current.length == what.length;
}

/// Returns the first byte of an element, mapped in this process; nullptr if it is not mapped, or
/// not yet. Sets `region` to the element's region. The caller is in an active section.
const std::byte* map_element(peer& from, const sge& element, region_record& region) noexcept {
  if (from.segment().find_region(element.lkey, region) != lookup::found || region.arena == 0)
    return nullptr;
  const region_view view = view_of(region);
  if (!is_permitted(view, {.key = element.lkey,
                           .address = element.address,
                           .length = element.length,
                           .needed = {},
                           .domain = view.domain}))
    return nullptr;
  const auto found = from.map(region.arena, region.arena_offset + (element.address - region.iova),
                              element.length, map_access::read_only);
  return found.status == map_status::ready ? found.address : nullptr;
}

}  // namespace

handled payload_puller::receive(peer& from, std::span<const std::byte> bytes) noexcept {
  message what;
  payload_reference payload;
  if (!take_reference(bytes, what, payload) || slot_of_number(what.source_qpn) != from.slot())
    return handled::broken;
  if (!endpoint_state::room_for_answer(from)) return handled::keep;
  if (from_ != &from) left_ = bytes_per_batch;
  from_ = &from;
  if (left_ == 0) {
    state_.set_unfinished();
    return handled::keep;
  }
  const auto silence = [&](reason why, std::uint32_t extra) {
    state_.answer(from, what,
                  {.outcome = verdict::no_answer,
                   .why = {.why = why, .detail = what.destination_qpn, .extra = extra}});
    return handled::consumed;
  };
  queue_pair* const target = state_.home.find(what.destination_qpn);
  if (target == nullptr) return silence(reason::peer_unknown, 0);
  const auto lock = try_for_a_while(target->receive_lock());
  if (!lock) {
    state_.set_needs_progress();
    return handled::keep;
  }
  connection* const by = state_.connection_of(*target);
  // The process of a queue pair without a connection is guarded by its send lock.
  if (!rules_of(target->transport()).connected || by == nullptr || by->to.get() != &from)
    return silence(reason::peer_not_ready, static_cast<std::uint32_t>(target->state()));
  if (by->precedes())
    return silence(reason::peer_not_ready, static_cast<std::uint32_t>(queue_pair_state::init));
  if (by->answer.waits) {
    state_.set_needs_progress();
    return handled::keep;
  }
  responder& receiver = target->receiver();
  const bool begun = std::exchange(by->pull_waits, false) && has_begun_request(receiver, what);
  if (!begun) {
    // The queue pair was reset or has failed since: treat the request as lost.
    if (generation_of(from.segment(), what.source_qpn) != payload.generation) {
      state_.note_dropped();
      return handled::consumed;
    }
    const response outcome = receiver.begin(what);
    if (outcome.outcome != verdict::done) {
      state_.answer(from, what, outcome);
      return handled::consumed;
    }
  }
  const handled done = go_on(*target, from, payload);
  if (done == handled::keep) {
    by->pull_waits = true;
    receiver.keep();
  }
  return done;
}

/// Copies the next part of a payload. The last part ends the request.
handled payload_puller::go_on(queue_pair& target, peer& from,
                              const payload_reference& payload) noexcept {
  responder& receiver = target.receiver();
  const message& what = receiver.current();
  response outcome;
  switch (copy(receiver, from, payload, outcome)) {
    case copied::part:
      state_.set_unfinished();
      return handled::keep;
    case copied::unreadable:
      static_cast<void>(receiver.interrupt(nullptr));
      outcome = {.outcome = verdict::unread};
      break;
    case copied::refused:
      break;
    case copied::all:
      // The copy precedes this load. If the memory changed during the copy, the generation had
      // changed before the memory.
      std::atomic_thread_fence(std::memory_order_acquire);
      if (generation_of(from.segment(), what.source_qpn) != payload.generation) {
        static_cast<void>(receiver.interrupt(nullptr));
        state_.note_dropped();
        return handled::consumed;
      }
      state_.successes.add(state_.connection_of(target)->to, what);
      outcome = receiver.finish();
      break;
  }
  if (outcome.outcome != verdict::done) state_.answer(from, what, outcome);
  return handled::consumed;
}

payload_puller::copied payload_puller::copy(responder& receiver, peer& from,
                                            const payload_reference& payload,
                                            response& out) noexcept {
  const active_section section = from.enter();
  if (!section) return copied::part;
  std::uint64_t placed = receiver.placed();
  for (const sge& element : payload.list()) {
    if (placed >= element.length) {
      placed -= element.length;
      continue;
    }
    region_record region;
    const std::byte* const source = map_element(from, element, region);
    if (source == nullptr) return copied::unreadable;
    const std::uint64_t rest = element.length - placed;
    const std::uint64_t part = std::min(rest, left_);
    out = receiver.place({source + placed, part});
    if (out.outcome == verdict::local_protection_error) return copied::unreadable;
    if (out.outcome != verdict::done) return copied::refused;
    if (!peer_segment::is_current(region)) return copied::unreadable;
    left_ -= part;
    if (part < rest) return copied::part;
    placed = 0;
  }
  return copied::all;
}

}  // namespace verbena::softdev
