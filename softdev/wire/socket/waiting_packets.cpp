// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/waiting_packets.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace verbena::softdev::wire {

waiting_packets::waiting_packets() : slots_(new slot[capacity]) {
  std::iota(order_.begin(), order_.end(), std::uint8_t{0});
}

std::size_t waiting_packets::waiting_for(const packet& what) const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      std::span(order_).first(count_),
      [&](std::uint8_t place) { return lock_of(slots_[place].what.get()) == lock_of(what); }));
}

bool waiting_packets::keep(const packet& what, const wire_route& route) noexcept {
  if (count_ == capacity || what.payload.size() > largest_mtu ||
      waiting_for(what) >= most_for_one_lock)
    return false;
  slot& to = slots_[order_[count_++]];
  to.what.store(what);
  to.route = route;
  return true;
}

}  // namespace verbena::softdev::wire
