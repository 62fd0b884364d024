// SPDX-License-Identifier: MIT
#include "softdev/peers/mapped_arenas.hpp"

#include <utility>

namespace verbena::softdev {

mapped_arenas::mapped mapped_arenas::map(std::uint64_t arena, std::uint64_t offset,
                                         std::uint64_t bytes, map_access access) noexcept {
  if (how_.policy == route_policy::ring) return {};
  const auto found = arenas_.find(arena, offset, bytes, access);
  if (found.status != map_status::ask) return {found.status, found.address};
  if (!arenas_.mark_asked(arena)) return {};
  if (!how_.messages.try_send({.kind = message_kind::ask_arena, .id = arena})) {
    arenas_.forget(arena);
    how_.with_retired.insert(how_.slot);
  }
  return {map_status::pending};
}

void mapped_arenas::retire(std::uint64_t arena) {
  arenas_.retire(arena);
  how_.with_retired.insert(how_.slot);
}

bool mapped_arenas::drop_retired() {
  if (arenas_.has_retired()) {
    retired_mappings retired{.nodes = arenas_.take_retired(), .lanes = {}};
    retired.used = how_.memory.own_lanes();
    pair_memory::for_each_lane(retired.used, [&](std::uint32_t lane) {
      retired.lanes[lane] = how_.memory.own_lane(lane).load(std::memory_order_seq_cst);
    });
    retired_.push_back(std::move(retired));
  }
  std::erase_if(retired_, [&](const retired_mappings& each) {
    bool inside = false;
    pair_memory::for_each_lane(each.used, [&](std::uint32_t lane) {
      const bool was_inside = (each.lanes[lane] & 1U) != 0;
      const auto& word = how_.memory.own_lane(lane);
      inside = inside || (was_inside && word.load(std::memory_order_seq_cst) == each.lanes[lane]);
    });
    return !inside;
  });
  return retired_.empty();
}

}  // namespace verbena::softdev
