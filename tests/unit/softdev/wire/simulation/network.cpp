// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/wire/simulation/network.hpp"

#include <algorithm>
#include <utility>

#include "softdev/wire/opcode.hpp"

namespace verbena::softdev::wire::simulation {
namespace {
constexpr unsigned most_losses = 2;
}  // namespace

void network::send(time_ns departure, std::size_t host, const packet_identity& which,
                   std::vector<std::byte> bytes) {
  if (departure >= faults_.partitioned_at) return;
  if (faults_.narrow.bytes_per_us != 0 && !pass(departure, host, bytes.size())) return;
  const auto happens = [this](std::uint32_t rate) {
    return random_.below(faults_.rate_unit) < rate;
  };
  const bool lost = happens(faults_.loss);
  const bool damaged = happens(faults_.corruption);
  const bool doubled = happens(faults_.duplication);
  if (may_lose(which, lost || damaged)) {
    ++happened_;
    if (lost) return;
    const std::uint32_t bit = random_.below(static_cast<std::uint32_t>(bytes.size()) * 8);
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  time_ns arrival = departure + faults_.delay;
  if (faults_.jitter != 0) arrival += random_.next() % faults_.jitter;
  if (happens(faults_.reordering) && faults_.longest_detour != 0) {
    ++happened_;
    arrival += random_.next() % faults_.longest_detour;
  } else {
    arrival = std::max(arrival, last_arrival_[host]);
    last_arrival_[host] = arrival;
  }
  if (doubled) {
    ++happened_;
    const time_ns later = faults_.longest_detour == 0 ? 0 : random_.next() % faults_.longest_detour;
    deliver(arrival + later, host, bytes);
  }
  deliver(arrival, host, std::move(bytes));
}

/// Sends a packet through the bottleneck. `departure` becomes the time when it has left it. Returns
/// false if the queue has no room.
bool network::pass(time_ns& departure, std::size_t host, std::size_t bytes) {
  constexpr std::uint64_t ns_per_us = 1000;
  const bottleneck& link = faults_.narrow;
  time_ns& free_at = narrow_free_at_[host];
  const time_ns waits = free_at > departure ? free_at - departure : 0;
  if (waits * link.bytes_per_us / ns_per_us > link.queue_bytes) {
    ++dropped_;
    return false;
  }
  free_at = std::max(free_at, departure) + bytes * ns_per_us / link.bytes_per_us;
  departure = free_at;
  return true;
}

bool network::may_lose(const packet_identity& which, bool wanted) {
  packet_identity counted = which;
  auto& [host, queue_pair, psn, opcode] = counted;
  const bool acknowledges =
      opcode == static_cast<std::uint8_t>(operation::acknowledge) ||
      opcode == static_cast<std::uint8_t>(packet_opcode::selective_acknowledgement);
  if (acknowledges) psn = 0;
  unsigned& losses = lost_[counted];
  const bool loses = wanted && losses < most_losses;
  if (loses)
    ++losses;
  else if (acknowledges)
    losses = 0;
  return loses;
}

void network::deliver(time_ns arrival, std::size_t host, std::vector<std::byte> bytes) {
  const bool marked = faults_.marking != 0 && marks_.chance(faults_.marking);
  packets_.push({arrival, sent_++, host, std::move(bytes), marked});
}

travelling_packet network::take() {
  travelling_packet first = packets_.top();
  packets_.pop();
  return first;
}

}  // namespace verbena::softdev::wire::simulation
