// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/packet_receiver.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "softdev/core/datagram.hpp"
#include "softdev/core/port_state.hpp"
#include "softdev/core/process_slot.hpp"
#include "softdev/wire/network.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr std::size_t least_bth_bytes = 12;

forwarded_header header_of(const datagram_addresses& ends, std::size_t datagram_bytes) noexcept {
  return {.source = ends.source,
          .destination = ends.destination,
          .source_port = ends.source_port,
          .datagram_bytes = static_cast<std::uint16_t>(datagram_bytes),
          .interface = ends.interface,
          .traffic_class = ends.traffic_class};
}

}  // namespace

packet_receiver::outcome packet_receiver::receive(time_ns now) noexcept {
  now_ = now;
  take_waiting();
  take_late(now);
  if (kept_.for_clients != nullptr) {
    share_.serve(now);
    forward_kept();
    if (now >= kept_.for_clients->end) end_wait_for_clients();
  }
  const outcome result =
      watcher_ == nullptr
          ? receive_batches([this, now](const received_train& from) { sort(from, now); })
          : receive_watched(now);
  const bool settled = kept_.locked.empty() && !some_are_late() && !keeps_packets();
  return result == outcome::ended || settled ? result : outcome::go_on;
}

/// Passes the received messages to `sort(const received_train&)`.
template <class Sort>
packet_receiver::outcome packet_receiver::receive_batches(Sort sort) noexcept {
  constexpr int most_batches = 4;
  constexpr std::size_t most_packets = 256;  // a message can contain many packets
  std::size_t packets = 0;
  for (int i = 0; i < most_batches && packets < most_packets; ++i) {
    bool ended = false;
    const std::size_t count = batch_.receive(share_, ended);
    for (std::size_t k = 0; k < count; ++k) {
      received_train next;
      if (batch_.read(k, next)) {
        packets += (next.bytes.size() + next.size - 1) / next.size;
        sort(next);
      } else
        ++counters_.malformed;
    }
    if (count == 0 && ended) return outcome::ended;
    if (count == 0) return i == 0 ? outcome::idle : outcome::worked;
    if (!batch_.expects_more()) return outcome::worked;
  }
  return outcome::go_on;
}

/// Assigns packets to processes. Consecutive packets for another process are forwarded together.
void packet_receiver::sort(received_train from, time_ns now) noexcept {
  identification_ = 0;
  sort_rest(from, now);
}

void packet_receiver::sort_rest(received_train from, time_ns now) noexcept {
  while (!from.bytes.empty()) {
    packet what;
    if (parse(packet_of(from.first()), largest_mtu, what) != packet_fault::none) {
      drop_malformed({from.ends, from.take(1).bytes});
      ++identification_;
      continue;
    }
    if (is_own(what)) {
      take_own({from.ends, from.take(1).bytes}, what, now);
      ++identification_;
      continue;
    }
    const std::uint32_t slot = slot_of_number(what.destination_qpn);
    const std::size_t count = count_for(slot, from);
    forward(slot, from.take(count), now);
    identification_ = static_cast<std::uint16_t>(identification_ + count);
  }
}

/// Receives like receive_batches for a process with a packet watcher: one packet at a time.
packet_receiver::outcome packet_receiver::receive_watched(time_ns now) noexcept {
  const outcome result =
      receive_batches([this, now](const received_train& from) { sort_watched(from, now); });
  watcher_->settled_all();
  return result;
}

void packet_receiver::sort_watched(received_train from, time_ns now) noexcept {
  identification_ = 0;
  while (!from.bytes.empty()) {
    packet what;
    const bool valid = parse(packet_of(from.first()), largest_mtu, what) == packet_fault::none;
    if (valid && !is_own(what)) {
      const std::uint32_t slot = slot_of_number(what.destination_qpn);
      forward_watched(slot, from.take(count_for(slot, from)), now);
    } else {
      const received_train next = from.take(1);
      watch_next({next.ends, next.bytes}, valid ? &what : nullptr, now);
    }
  }
}

/// The process that receives a forwarded packet reports it. A packet that was not forwarded is
/// reported here.
void packet_receiver::forward_watched(std::uint32_t slot, received_train from,
                                      time_ns now) noexcept {
  const intake_counters before = counters_;
  forward(slot, from, now);
  const std::string_view fate = drop_reason_since(before);
  for (; !from.bytes.empty(); ++identification_) {
    const received_train next = from.take(1);
    if (fate.empty()) continue;
    watcher_->arrived(headers_of(next.ends), packet_of(next.bytes));
    watcher_->settled(fate);
  }
}

/// Processes and reports a packet for this process. `what` is nullptr if the packet is malformed.
void packet_receiver::watch_next(const received_datagram& from, const packet* what,
                                 time_ns now) noexcept {
  take_late(now);  // before the copy of the counters: late packets change them, too
  const intake_counters before = counters_;
  network_header headers = headers_of(from.ends);
  if (what != nullptr) headers.identification = find_identification(from).value_or(identification_);
  watcher_->arrived(headers, packet_of(from.bytes));
  sort_rest({from.ends, from.bytes, from.bytes.size()}, now);
  const std::string_view fate = drop_reason_since(before);
  const bool may_be_late =
      injected_ && what != nullptr && what->destination_qpn != general_services_qpn;
  const bool taken = may_be_late || !fate.empty() || counters_.received != before.received ||
                     counters_.messages != before.messages;
  if (taken || counters_.forwarded == before.forwarded)
    watcher_->settled(fate);
  else
    watcher_->dismissed();
}

/// Returns why a packet was dropped (the name of its counter), or which fault was injected. Empty
/// if neither applies.
std::string_view packet_receiver::drop_reason_since(const intake_counters& before) const noexcept {
  if (counters_.injected != before.injected) {
    const packet_faults::decision& last = injected_->last;
    if (last.lost) return "injected_faults: lost";
    if (last.corrupted) return "injected_faults: damaged";
    if (last.duplicated) return "injected_faults: duplicated";
    if (last.marked) return "injected_faults: marked";
  }
  if (counters_.malformed != before.malformed) return "dropped_malformed";
  if (counters_.unknown_qp != before.unknown_qp) return "dropped_unknown_qp";
  if (counters_.forward_full != before.forward_full) return "forward_queue_full";
  if (counters_.foreign != before.foreign) return "dropped_wrong_source";
  if (counters_.wrong_interface != before.wrong_interface) return "dropped_wrong_interface";
  if (counters_.damaged != before.damaged) return "dropped_icrc";
  if (counters_.auth_missing != before.auth_missing) return "dropped_auth_missing";
  if (counters_.auth_failed != before.auth_failed) return "dropped_auth_failed";
  if (counters_.auth_replayed != before.auth_replayed) return "dropped_auth_replayed";
  if (counters_.auth_unexpected != before.auth_unexpected) return "dropped_auth_unexpected";
  return counters_.busy != before.busy ? "dropped_busy" : std::string_view();
}

/// Returns how many packets at the front are for the process with this slot.
std::size_t packet_receiver::count_for(std::uint32_t slot, received_train from) const noexcept {
  std::size_t count = 0;
  for (packet what; !from.bytes.empty(); ++count, static_cast<void>(from.take(1)))
    if (parse(packet_of(from.first()), largest_mtu, what) != packet_fault::none || is_own(what) ||
        slot_of_number(what.destination_qpn) != slot)
      break;
  return count;
}

/// Returns whether this process handles the packet: it is for this process, for queue pair 1 or for
/// a group.
bool packet_receiver::is_own(const packet& what) const noexcept {
  return what.destination_qpn == general_services_qpn || what.destination_qpn == multicast_qpn ||
         slot_of_number(what.destination_qpn) == options_.process_slot;
}

/// Returns the slot of the process that receives the packet. All processes have a queue pair 1: the
/// receiver of a management datagram depends on its content.
std::uint32_t packet_receiver::slot_for(const packet& what) const noexcept {
  if (what.destination_qpn != general_services_qpn) return slot_of_number(what.destination_qpn);
  if (management_ == nullptr || !has_message(what)) return options_.process_slot;
  return management_->slot_of(what.payload.first<management_bytes>())
      .value_or(options_.process_slot);
}

void packet_receiver::take_own(const received_datagram& from, const packet& what,
                               time_ns now) noexcept {
  if (what.destination_qpn == general_services_qpn)
    take_message(from, what, now);
  else if (what.destination_qpn == multicast_qpn)
    sort_for_group(from, what, now);
  else if (injected_)
    inject_faults(from, what, now);
  else
    take(from, what);
}

/// Any process can have members of the group.
void packet_receiver::sort_for_group(const received_datagram& from, const packet& what,
                                     time_ns now) noexcept {
  // Checked first, because forwarding costs a system call for each process.
  if (transport_of(what.opcode) != packet_transport::ud || !is_multicast(from.ends.destination)) {
    ++counters_.unknown_qp;
    return;
  }
  // Without clients, the packet is checked only once, before it is delivered to the members.
  if (share_.clients() > 0) {
    if (verifier_ != nullptr && !count(verifier_->examine(headers_of(from.ends), from.bytes), from))
      return;
    if (!is_undamaged(from)) return;
    counters_.forwarded +=
        share_.forward_to_all(header_of(from.ends, from.bytes.size()), from.bytes);
  }
  if (injected_)
    inject_faults(from, what, now);
  else
    take(from, what);
}

/// Drops, duplicates, damages, marks or delays a packet.
void packet_receiver::inject_faults(const received_datagram& from, const packet& what,
                                    time_ns now) noexcept {
  const packet_faults::decision fault = injected_->faults.next();
  injected_->last = fault;
  if (fault != packet_faults::decision{}) ++counters_.injected;
  if (fault.lost) return;
  received_datagram marked = from;
  if (fault.marked) marked.ends.traffic_class |= ecn_congested;
  if (fault == packet_faults::decision{}) {
    take_late(now);
    take(from, what);
    return;
  }
  if (fault == packet_faults::decision{.marked = true}) {
    take_late(now);
    take(marked, what);
    return;
  }
  for (int copies = fault.duplicated ? 2 : 1; copies > 0; --copies) {
    const std::span<std::byte> bytes = injected_->late.keep(marked, now + fault.delay);
    if (bytes.empty()) ++counters_.busy;  // too many packets are delayed
    if (!fault.corrupted || bytes.empty()) continue;
    const std::uint64_t bit = fault.bit % (bytes.size() * 8);
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
  take_late(now);
}

/// Processes the delayed packets that are due. A damaged packet can be malformed now.
void packet_receiver::take_late(time_ns now) noexcept {
  if (!some_are_late()) return;
  injected_->late.release(now, [this](const received_datagram& from) {
    packet what;
    if (parse(packet_of(from.bytes), largest_mtu, what) == packet_fault::none)
      take(from, what);
    else
      drop_malformed(from);
  });
}

void packet_receiver::take(const received_datagram& from, const packet& what) noexcept {
  if (verifier_ != nullptr && !admits(from)) return;
  if (what.destination_qpn == multicast_qpn) return take_for_group(from, what);
  auto route = routes_.find(what.destination_qpn);
  if (!route) {
    ++counters_.unknown_qp;
    return;
  }
  if (!is_genuine(from, *route)) return;
  if (route->any) {
    // If the datagram has to wait, the addresses are needed later.
    route->own = from.ends.destination;
    route->peer = from.ends.source;
  }
  const bool marked = is_marked(from.ends) && !route->any && !what.payload.empty() &&
                      what.opcode != packet_opcode::congestion_notification;
  if (marked) ++counters_.marked;
  deliver_or_queue(what, *route, marked);
  const nak_kind nak = nak_of(what);
  if (nak == nak_kind::not_ready) ++counters_.rnr_naks;
  if (nak == nak_kind::sequence) ++counters_.sequence_naks;
}

/// Delivers a packet, or keeps it until the lock of its queue pair is free. Counts it as received
/// unless there is no room to keep it. A CNP does not wait for earlier packets. A packet that is
/// kept loses its CE mark. Both are acceptable, because persistent congestion causes more marks and
/// CNPs.
void packet_receiver::deliver_or_queue(const packet& what, const wire_route& route,
                                       bool marked) noexcept {
  const bool waits =
      what.opcode != packet_opcode::congestion_notification && kept_.locked.must_wait(what);
  const bool taken = !waits && give(what, route, marked);
  if (!taken && !kept_.locked.keep(what, route)) {
    ++counters_.busy;
    return;
  }
  ++counters_.received;
  counters_.received_bytes += encoded_bytes(what);
}

/// Delivers a datagram to the queue pairs of this process that are attached to its group.
void packet_receiver::take_for_group(const received_datagram& from, const packet& what) noexcept {
  std::array<std::uint32_t, limits::max_group_members> members;
  const bool to_group = is_multicast(from.ends.destination);
  const std::size_t count = to_group ? packets_.find_members(from.ends.destination, members) : 0;
  if (count == 0) {
    ++counters_.unknown_qp;
    return;
  }
  if (options_.addresses != nullptr &&
      !options_.addresses->receives_groups_at(from.ends.interface)) {
    ++counters_.foreign;
    return;
  }
  if (!is_undamaged(from)) return;
  for (const std::uint32_t member : std::span(members).first(count)) {
    auto route = routes_.find(member);
    if (!route || !route->any) continue;  // the queue pair is not ready to receive
    route->own = from.ends.destination;
    route->peer = from.ends.source;
    packet copy = what;
    copy.destination_qpn = member;
    deliver_or_queue(copy, *route);
  }
}

/// Retries the packets that wait for a lock. Drops those whose connection has ended.
void packet_receiver::take_waiting() noexcept {
  if (kept_.locked.empty()) return;
  kept_.locked.retry([this](const packet& what, const wire_route& route) {
    const auto current = routes_.find(what.destination_qpn);
    return !current || current->connection != route.connection || give(what, route);
  });
}

void packet_receiver::forward(std::uint32_t slot, const received_train& from,
                              time_ns now) noexcept {
  using enum port_share::forwarded;
  const forwarded_header head = header_of(from.ends, from.size);
  port_share::forwarded what = share_.forward(slot, head, from.bytes);
  if (what == unknown) {
    share_.serve(now);  // the process may just have registered
    forward_kept();
    what = share_.forward(slot, head, from.bytes);
  }
  if (what == unknown && keep_for_client(from)) return;
  const std::size_t count = (from.bytes.size() + from.size - 1) / from.size;
  (what == given  ? counters_.forwarded
   : what == full ? counters_.forward_full
                  : counters_.unknown_qp) += count;
}

void packet_receiver::await_clients(time_ns end) {
  if (kept_.for_clients == nullptr) kept_.for_clients = std::make_unique<unclaimed>();
  kept_.for_clients->end = end;
}

/// Returns false if these packets are not kept. If there is no room for some of them, counts those.
bool packet_receiver::keep_for_client(received_train from) noexcept {
  if (kept_.for_clients == nullptr) return false;
  while (!from.bytes.empty()) {
    const received_train next = from.take(1);
    if (kept_.for_clients->packets.keep({next.ends, next.bytes}, now_).empty())
      ++counters_.unknown_qp;
  }
  return true;
}

/// Forwards the kept packets of processes that have registered.
void packet_receiver::forward_kept() noexcept {
  using enum port_share::forwarded;
  if (kept_.for_clients == nullptr) return;
  kept_.for_clients->packets.retry([this](const received_datagram& from) {
    packet what;
    if (parse(packet_of(from.bytes), largest_mtu, what) != packet_fault::none) return true;
    const port_share::forwarded result =
        share_.forward(slot_for(what), header_of(from.ends, from.bytes.size()), from.bytes);
    if (result == given) ++counters_.forwarded;
    if (result == full) ++counters_.forward_full;
    return result != unknown;
  });
}

void packet_receiver::end_wait_for_clients() noexcept {
  kept_.for_clients->packets.retry([this](const received_datagram& /*from*/) {
    ++counters_.unknown_qp;
    return true;
  });
  kept_.for_clients.reset();
}

bool packet_receiver::give(const packet& what, const wire_route& route, bool marked) noexcept {
  if (!route.any) return packets_.receive(what, marked);
  return packets_.receive_datagram(what, {.source = route.peer, .destination = route.own});
}

/// Returns whether a management datagram or another datagram may arrive at this address and
/// interface.
bool packet_receiver::is_permitted(const datagram_addresses& ends) const noexcept {
  return options_.addresses == nullptr ||
         options_.addresses->receives(ends.destination, ends.interface);
}

void packet_receiver::take_message(const received_datagram& from, const packet& what,
                                   time_ns now) noexcept {
  if (is_unexpected(from)) return;
  if (management_ == nullptr || !has_message(what)) {
    ++counters_.unknown_qp;
    return;
  }
  const management_view message = what.payload.first<management_bytes>();
  const std::uint32_t slot = slot_for(what);
  if (slot != options_.process_slot)
    return forward(slot, {from.ends, from.bytes, from.bytes.size()}, now);
  if (verifier_ != nullptr && !admits(from)) return;
  if (!is_permitted(from.ends)) {
    ++counters_.foreign;
    return;
  }
  if (!is_undamaged(from)) return;
  ++counters_.messages;
  management_->message_arrived(
      {.own = from.ends.destination,
       .peer = from.ends.source,
       .interface = scope_of(from.ends.destination, from.ends.source, from.ends.interface)},
      message);
}

/// Returns whether the packet is from the host of the peer (or for a UD queue pair), arrived at a
/// permitted address and interface, and is undamaged. Counts it if not.
bool packet_receiver::is_genuine(const received_datagram& from, const wire_route& route) noexcept {
  const bool expected = route.any
                            ? is_permitted(from.ends)
                            : route.peer == from.ends.source && route.own == from.ends.destination;
  if (!expected) {
    ++counters_.foreign;
    return false;
  }
  if (!routes_.permits(route, from.ends.interface)) {
    ++counters_.wrong_interface;
    return false;
  }
  return is_undamaged(from);
}

/// Returns the header fields that a socket can provide.
network_header packet_receiver::headers_of(const datagram_addresses& ends) const noexcept {
  return {.source = ends.source,
          .destination = ends.destination,
          .traffic_class = ends.traffic_class,
          .identification = identification_,
          .source_port = ends.source_port,
          .destination_port = share_.port()};
}

/// Returns the IPv4 identification of a packet, or nullopt if the packet is damaged. The kernel
/// numbers the packets that it segments from one message, and can join them again in one received
/// message (GRO). Therefore the position of the packet is tried first, then 0. Otherwise the
/// identification is computed from the ICRC.
std::optional<std::uint16_t> packet_receiver::find_identification(
    const received_datagram& from) const noexcept {
  const auto bytes = packet_of(from.bytes);
  if (bytes.size() < icrc_bytes + least_bth_bytes) return std::nullopt;
  network_header around = headers_of(from.ends);
  const auto covered = bytes.first(bytes.size() - icrc_bytes);
  const std::uint32_t received = load_icrc(bytes.last<icrc_bytes>());
  if (icrc(around, covered) == received) return identification_;
  if (identification_ != 0) {
    around.identification = 0;
    if (icrc(around, covered) == received) return std::uint16_t{0};
  }
  return recover_identification(around, covered, received);
}

/// Returns whether the datagram is authenticated and is not a replay. Counts it if not.
bool packet_receiver::admits(const received_datagram& from) noexcept {
  return count(verifier_->admit(headers_of(from.ends), from.bytes), from);
}

/// Returns whether a datagram is genuine. Counts it if not.
bool packet_receiver::count(authenticity what, const received_datagram& from) noexcept {
  if (what == authenticity::genuine) return true;
  (what == authenticity::missing    ? counters_.auth_missing
   : what == authenticity::failed   ? counters_.auth_failed
   : what == authenticity::replayed ? counters_.auth_replayed
                                    : counters_.auth_unexpected) += 1;
  if (what != authenticity::replayed) note_mismatch(what, from);
  return false;
}

/// Returns whether the datagram has a trailer although this process has no key. Counts it in this
/// case.
bool packet_receiver::is_unexpected(const received_datagram& from) noexcept {
  return verifier_ == nullptr && has_trailer(from.bytes) && !count(authenticity::unexpected, from);
}

void packet_receiver::drop_malformed(const received_datagram& from) noexcept {
  if (!is_unexpected(from)) ++counters_.malformed;
}

/// Keeps a key mismatch for take_mismatch(). Ignores damaged packets.
void packet_receiver::note_mismatch(authenticity what, const received_datagram& from) noexcept {
  // Hosts that may not send to this process get no notice. A packet to a group causes none, because
  // a group address cannot be the source address of the notice.
  if (is_multicast(from.ends.destination) || !is_permitted(from.ends)) return;
  if (!mismatches_.wants(what, from.ends.source, now_)) return;
  const received_datagram alone{from.ends, without_trailer(from.bytes)};
  packet content;
  if (parse(alone.bytes, largest_mtu, content) == packet_fault::none && find_identification(alone))
    mismatches_.keep(what, from.ends, is_key_mismatch_notice(content), now_);
}

bool packet_receiver::is_undamaged(const received_datagram& from) noexcept {
  const std::uint16_t expected = identification_;
  const auto found = find_identification(from);
  if (!found) {
    if (!is_unexpected(from)) ++counters_.damaged;
    return false;
  }
  const bool recovered = *found != expected && *found != 0;
  // For one in 65536 wrong ICRCs, there is an identification with which the ICRC is correct. The
  // packet can therefore be one with a trailer.
  if (recovered && has_trailer(from.bytes) && verifier_ == nullptr &&
      find_identification({from.ends, without_trailer(from.bytes)}))
    return count(authenticity::unexpected, from);
  if (recovered) ++counters_.recovered;
  identification_ = *found;
  return true;
}

}  // namespace verbena::softdev::wire
