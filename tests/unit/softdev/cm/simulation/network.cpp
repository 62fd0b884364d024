// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/cm/simulation/network.hpp"

#include <algorithm>

namespace verbena::softdev::cm::simulation {
namespace {
constexpr unsigned most_losses = 2;
}  // namespace

microseconds network::detour() {
  return faults_.longest_detour.count() == 0
             ? microseconds(0)
             : microseconds(random_.next() %
                            static_cast<std::uint64_t>(faults_.longest_detour.count()));
}

void network::send(std::size_t host, const mad& what, mad_view bytes) {
  ++sent_;
  const bool lost = random_.chance(faults_.loss);
  const bool doubled = random_.chance(faults_.duplication);
  const bool reordered = random_.chance(faults_.reordering);
  if (now >= faults_.partition_begin && now < faults_.partition_end) {
    ++happened_;
    return;
  }
  unsigned& losses = lost_[{host, what.kind, what.sender_id, what.receiver_id, what.transaction}];
  if (lost && losses < most_losses) {
    ++happened_;
    ++losses;
    return;
  }
  travelling_message made{.host = host};
  std::ranges::copy(bytes, made.bytes.begin());
  const time_point usual = now + faults_.delay;
  if (reordered) ++happened_;
  messages_[{reordered ? usual + detour() : usual, number_++}] = made;
  if (!doubled) return;
  ++happened_;
  messages_[{usual + detour(), number_++}] = made;
}

travelling_message network::take() { return messages_.extract(messages_.begin()).mapped(); }

}  // namespace verbena::softdev::cm::simulation
