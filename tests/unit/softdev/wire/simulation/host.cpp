// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/wire/simulation/host.hpp"

#include <algorithm>
#include <utility>

#include "softdev/core/datagram.hpp"
#include "softdev/wire/engine/message_packets.hpp"
#include "softdev/wire/network.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::softdev::wire::simulation {
namespace {

std::uint32_t slot_of(std::size_t number) { return static_cast<std::uint32_t>(number) + 1; }

}  // namespace

network_address host::address_of(std::size_t number) {
  return {0, 0, 0,    0,    0,  0, 0, 0,
          0, 0, 0xff, 0xff, 10, 0, 0, static_cast<std::uint8_t>(number + 1)};
}

host::host(std::size_t number, network& net, const link_rate& rate, const host_options& options)
    : number_(number),
      network_(net),
      rate_(rate),
      ack_delay_(options.ack_delay),
      device_({.process_slot = slot_of(number), .clock = +[] { return now; }}),
      packets_(device_, slot_of(number), *this,
               {.selective_repeat = options.selective_repeat,
                .larger_windows = options.larger_windows}) {}

bool host::has_room() noexcept { return room_at() <= now; }

time_ns host::room_at() const noexcept {
  const time_ns full = rate_.packet_time * rate_.queue_packets;
  return link_free_at_ > full ? link_free_at_ - full : 0;
}

bool host::put(const queue_pair& /*from*/, const packet& what) noexcept {
  put_between({.source = address_of(number_), .destination = address_of(1 - number_)}, what);
  return true;
}

bool host::put_datagram(const datagram_route& by, const packet& what) noexcept {
  put_between({.source = by.source, .destination = by.destination}, what);
  return true;
}

void host::put_between(const network_header& around, const packet& what) noexcept {
  ++sent_;
  if (observer_) observer_(what);
  const std::size_t peer = 1 - number_;
  const std::size_t head = network_bytes(around);
  std::vector<std::byte> bytes(head + encoded_bytes(what));
  write_network(around, bytes.size() - head, bytes);
  const std::size_t covered = encode(what, std::span(bytes).subspan(head));
  store_icrc(icrc(around, std::span(bytes).subspan(head, covered)),
             std::span(bytes).last<icrc_bytes>());
  link_free_at_ = std::max(link_free_at_, now) + rate_.packet_time;
  network_.send(link_free_at_, peer,
                {peer, what.destination_qpn, what.psn, static_cast<std::uint8_t>(what.opcode)},
                std::move(bytes));
}

void host::receive(std::span<const std::byte> bytes, bool marked) {
  network_header around;
  std::span<const std::byte> transport;
  packet what;
  const bool whole = parse_network(bytes, around, transport) == packet_fault::none &&
                     parse(transport, largest_mtu, what) == packet_fault::none &&
                     icrc(around, transport.first(transport.size() - icrc_bytes)) ==
                         load_icrc(transport.last<icrc_bytes>());
  if (!whole) {
    ++damaged_;
    return;
  }
  const bool taken = transport_of(what.opcode) == packet_transport::ud
                         ? packets_.receive_datagram(what, around)
                         : packets_.receive(what, marked);
  // There is only one thread, so no lock is held.
  VERBENA_ASSERT(taken, "a lock of a queue pair was left locked");
}

void host::run() {
  packets_.expire(now);
  while (device_.progress()) {
  }
  // Like a program that polls, postpones ACKs to the next call.
  const bool postpones = ack_delay_ != 0 && !has_postponed_;
  packets_.transmit(postpones ? ack_time::later : ack_time::at_once);
  has_postponed_ = packets_.has_postponed();
  if (has_postponed_) ++postponed_;
}

time_ns host::next_deadline() noexcept {
  const time_ns own = std::min(device_.next_deadline(), packets_.next_deadline());
  const time_ns acks_at = has_postponed_ ? now + ack_delay_ : never;
  const time_ns next = std::min(own, acks_at);
  return packets_.wants_to_transmit() ? std::min(next, std::max(now, room_at())) : next;
}

}  // namespace verbena::softdev::wire::simulation
