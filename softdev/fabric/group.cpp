// SPDX-License-Identifier: MIT
// Datagrams to multicast groups: one record for each process that says it is in the group, which
// gives the datagram to its members. A process that takes nothing for a while gets none until it
// takes something again, so that the others need not wait for it each time.
#include <algorithm>
#include <array>
#include <mutex>

#include "softdev/core/queue_pair.hpp"
#include "softdev/fabric/endpoint.hpp"

namespace verbena::softdev {
namespace {

using namespace records;

/// How many processes of a group, besides the sender's, a datagram reaches.
constexpr std::size_t max_group_processes = 256;
/// How long the sender waits for one of them that has no room.
constexpr time_ns group_patience = 100'000'000;

gid_bytes group_of(std::span<const std::byte> bytes) noexcept {
  return destination_of(bytes.first<route_header_bytes>());
}

}  // namespace

response fabric_endpoint::submit_to_group(queue_pair& sender, connection& by, const message& what,
                                          std::span<const segment> local) noexcept {
  if (!what.origin.has_route) return {};
  std::array<std::shared_ptr<peer>, max_group_processes> members;
  const std::size_t count =
      link_.find_group(group_of({local.front().data, local.front().bytes}), members);
  if (count == 0) return {};
  acknowledgements_.flush();
  if (!by.telling || by.telling_psn != what.psn) by.told.reset();
  bool waits = false;
  for (const auto& each : std::span(members).first(count)) {
    if (by.told[each->slot()]) continue;
    const std::byte* bad = nullptr;
    const told outcome = tell_member(sender, *each, what, local, bad);
    if (bad != nullptr) return local_fault(bad);
    if (outcome == told::waits) {
      waits = true;
    } else {
      by.told.set(each->slot());
    }
  }
  by.telling = waits;
  by.telling_psn = what.psn;
  return {.outcome = waits ? verdict::blocked : verdict::done};
}

fabric_endpoint::told fabric_endpoint::tell_member(queue_pair& sender, peer& to,
                                                   const message& what,
                                                   std::span<const segment> local,
                                                   const std::byte*& bad) noexcept {
  if (request_bytes(what.transport, what.opcode) + what.length > to.max_record()) {
    sender.drops().note({.why = reason::message_too_long,
                         .length = what.length,
                         .limit = to.max_record() - request_bytes(what.transport, what.opcode)});
    return told::dropped;
  }
  pushed all = push_to_member(to, what, local, bad);
  if (all == pushed::no_room) {
    // Room that came back before it was known that we wait is found by trying once more.
    wait_for_room(sender);
    all = push_to_member(to, what, local, bad);
  }
  if (all == pushed::refused) return told::dropped;
  if (all == pushed::all) {
    to.no_room_since.store(0, std::memory_order_relaxed);
    count(by_ring_);
    return told::done;
  }
  const time_ns now = home_.now();
  std::uint64_t since = 0;
  if (to.no_room_since.compare_exchange_strong(since, now)) since = now;
  if (now - since < group_patience) {
    home_.schedule(sender, since + group_patience);
    return told::waits;
  }
  sender.drops().note({.why = reason::path_full, .detail = to.slot() * limits::queue_pair_indices});
  return told::dropped;
}

fabric_endpoint::pushed fabric_endpoint::push_to_member(peer& to, const message& what,
                                                        std::span<const segment> local,
                                                        const std::byte*& bad) noexcept {
  const auto lock = to.lock_sends();
  const auto record =
      to.try_reserve(type::request, request_bytes(what.transport, what.opcode) + what.length,
                     link_.options().ring_bytes / 2);
  if (record.status != ring_status::ok) return pushed::no_room;
  std::span<std::byte> room = record.payload;
  put_request(room, what);
  bad = put_payload(room.first(what.length), local, 0);
  if (bad != nullptr) return pushed::refused;
  to.commit();
  to.announce();
  return pushed::all;
}

/// Gives a datagram to the members here, in the order of their numbers. Where one is in use the
/// record is kept, and later goes on after the last one that had it.
handled fabric_endpoint::receive_for_group(peer& from, message& what,
                                           std::span<const std::byte> bytes) noexcept {
  const bool whole = what.length >= route_header_bytes && bytes.size() == what.length &&
                     what.length <= route_header_bytes + limits::max_datagram_bytes;
  if (!whole || !what.origin.has_route) return handled::broken;
  what.destination_lid = home_.port().lid();
  const auto members = home_.groups().members(group_of(bytes));
  for (auto next = std::ranges::upper_bound(members, from.last_receiver); next != members.end();
       ++next) {
    queue_pair* target = home_.find(*next);
    if (target == nullptr) continue;
    const std::unique_lock lock(target->receive_lock(), std::try_to_lock);
    if (!lock) return keep();
    from.last_receiver = *next;
    what.destination_qpn = *next;
    begin_request(*target, from, what, bytes);
  }
  from.last_receiver = 0;
  return handled::consumed;
}

}  // namespace verbena::softdev
