// SPDX-License-Identifier: MIT
#include "softdev/fabric/send_reference.hpp"

#include <algorithm>
#include <functional>

#include "softdev/core/transport/rules.hpp"
#include "softdev/fabric/published_views.hpp"
#include "softdev/fabric/records.hpp"

namespace verbena::softdev {

using namespace records;

namespace {
// The number of requests that go through the ring after a refusal. It doubles with each refusal,
// but starts again if more references than that were sent in between.
constexpr std::uint32_t first_pause = 2;
constexpr std::uint32_t longest_pause = 1U << 16U;

bool is_empty(const sge& element) noexcept { return element.length == 0; }
}  // namespace

void reference_sender::begin(const queue_pair& sender, connection& by) noexcept {
  by.references.used = false;
  by.references.generation = ++generations_;
  publish_generation(state_.peer_link.segment(), sender, by.references.generation);
}

bool reference_sender::may_refer(queue_pair& sender, connection& by, const message& what) noexcept {
  const transport_rules& rules = rules_of(what.transport);
  if (!rules.acknowledged || rules.mode != delivery_mode::stream ||
      is_read_or_atomic(what.opcode) || state_.peer_link.options().route == route_policy::ring)
    return false;
  const std::span<const sge> elements = sender.sender().elements_of_next();
  const public_segment& own = state_.peer_link.segment();
  const bool shareable = std::ranges::all_of(
      elements, [&](const sge& each) { return is_empty(each) || own.is_shareable(each.lkey); });
  if (elements.empty() || !shareable) return false;
  if (by.references.pause == 0) return true;
  --by.references.pause;
  return false;
}

pushed reference_sender::push(queue_pair& sender, connection& by, const message& what) noexcept {
  const std::span<const sge> all = sender.sender().elements_of_next();
  const auto count = static_cast<std::size_t>(std::ranges::count_if(all, std::not_fn(is_empty)));
  const auto lock = by.to->lock_sends();
  const auto record =
      by.to->try_reserve(type::reference, reference_bytes(what.transport, what.opcode, count),
                         state_.reserve_for_answers());
  const bool fits = record.status == ring_status::ok;
  if (fits) {
    std::span<std::byte> room = record.payload;
    put_reference(room, what, by.references.generation, count);
    for (const sge& each : all)
      if (!is_empty(each)) put(room, each);
    by.to->commit();
    by.references.used = true;
    by.references.sent = std::min(by.references.sent + 1, longest_pause);
    sent_.add();
  }
  by.sent.position = by.to->position();
  by.to->announce();
  return fits ? pushed::all : pushed::no_room;
}

void reference_sender::note_refusal(connection& by) noexcept {
  auto& mine = by.references;
  const std::uint32_t more = std::min(mine.last_pause * 2, longest_pause);
  mine.last_pause = mine.last_pause == 0 || mine.sent > mine.last_pause ? first_pause : more;
  mine.pause = mine.last_pause;
  mine.sent = 0;
}

void reference_sender::disown(const queue_pair& sender, connection& by) noexcept {
  if (!by.references.used) return;
  begin(sender, by);
}

}  // namespace verbena::softdev
