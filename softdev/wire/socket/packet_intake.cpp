// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/packet_intake.hpp"

#include <algorithm>

#include "softdev/core/port_state.hpp"
#include "softdev/core/process_slot.hpp"
#include "softdev/wire/network.hpp"

namespace verbena::softdev::wire {
namespace {

/// A packet waits as long for a queue pair that is in use, and is lost then: others wait behind it.
/// The thread that uses the queue pair can be preempted; a lost NAK cannot be asked for again.
constexpr time_ns most_stalled = 200'000'000;

}  // namespace

packet_intake::outcome packet_intake::receive(time_ns now) noexcept {
  constexpr int most_batches = 4;
  for (int i = 0; i < most_batches; ++i) {
    bool ended = false;
    if (batch_.left() == 0 && batch_.receive(share_, ended) == 0) {
      if (ended) return outcome::ended;
      return i == 0 ? outcome::idle : outcome::worked;
    }
    while (batch_.left() > 0) {
      received_datagram next;
      if (!batch_.read(next))
        ++counters_.malformed;
      else if (!take(next, now))
        return outcome::go_on;
      batch_.consume();
    }
    if (!batch_.was_full()) return outcome::worked;
  }
  return outcome::go_on;
}

/// Returns false if the packet has to wait.
bool packet_intake::take(const received_datagram& from, time_ns now) noexcept {
  packet what;
  if (parse(from.bytes, largest_mtu, what) != packet_fault::none) {
    ++counters_.malformed;
    return true;
  }
  const std::uint32_t slot = slot_of_number(what.destination_qpn);
  if (slot != options_.process_slot) {
    forward(slot, from);
    return true;
  }
  const network_header around{.source = from.ends.source,
                              .destination = from.ends.destination,
                              .source_port = from.ends.source_port};
  if (!is_genuine(from, around, what)) return true;
  if (give(what, around)) {
    ++counters_.received;
  } else {
    stalled_since_ = std::min(stalled_since_, now);
    if (now - stalled_since_ < most_stalled) return false;
    ++counters_.busy;
  }
  stalled_since_ = never;
  return true;
}

void packet_intake::forward(std::uint32_t slot, const received_datagram& from) noexcept {
  const forwarded_header head{.source = from.ends.source,
                              .destination = from.ends.destination,
                              .source_port = from.ends.source_port};
  bool given = share_.forward(slot, head, from.bytes);
  if (!given) {
    share_.serve();  // the process may just have registered
    given = share_.forward(slot, head, from.bytes);
  }
  ++(given ? counters_.forwarded : counters_.unknown_pair);
}

bool packet_intake::give(const packet& what, const network_header& around) noexcept {
  return transport_of(what.opcode) == packet_transport::ud ? packets_.receive_datagram(what, around)
                                                           : packets_.receive(what);
}

bool packet_intake::fits(const wire_route& route, const network_header& around) const noexcept {
  if (!route.any) return route.peer == around.source && route.own == around.destination;
  return options_.addresses == nullptr || options_.addresses->receives(around.destination);
}

/// The packet is of a connection and from the host of its peer, or for a queue pair of UD; and it
/// is undamaged.
bool packet_intake::is_genuine(const received_datagram& from, const network_header& around,
                               const packet& what) noexcept {
  const auto route = routes_.find(what.destination_qpn);
  if (!route) {
    ++counters_.unknown_pair;
    return false;
  }
  if (!fits(*route, around)) {
    ++counters_.foreign;
    return false;
  }
  const auto covered = from.bytes.first(from.bytes.size() - icrc_bytes);
  const std::uint32_t received = load_icrc(from.bytes.last<icrc_bytes>());
  const bool zero = icrc(around, covered) == received;
  const bool solved = !zero && is_ipv4(around.source) && is_ipv4(around.destination) &&
                      solve_identification(around, covered, received).has_value();
  if (!zero && !solved) {
    ++counters_.damaged;
    return false;
  }
  if (solved) ++counters_.solved;
  return true;
}

}  // namespace verbena::softdev::wire
