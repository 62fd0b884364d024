// SPDX-License-Identifier: MIT
#include "softdev/fabric/group.hpp"

#include <array>

#include "softdev/core/queue_pair.hpp"
#include "softdev/fabric/records.hpp"

namespace verbena::softdev {
namespace {

/// The most processes of a group, besides the sender's, that a datagram reaches.
constexpr std::size_t max_group_processes = 256;
/// The longest wait of the sender for a process whose ring has no room.
constexpr time_ns group_patience = 100'000'000;

}  // namespace

using namespace records;

gid_bytes group_of(std::span<const std::byte> datagram) noexcept {
  return destination_of(datagram.first<grh_bytes>());
}

response group_sender::send(queue_pair& sender, connection& by, const message& what,
                            std::span<const segment> local) noexcept {
  if (!what.origin.has_grh) return {};
  std::array<std::shared_ptr<peer>, max_group_processes> members;
  const std::size_t count =
      state_.peer_link.find_group(group_of({local.front().data, local.front().bytes}), members);
  if (count == 0) return {};
  state_.successes.flush();
  if (!by.group.waits || by.group.psn != what.psn) by.group.delivered->reset();
  bool waits = false;
  for (const auto& each : std::span(members).first(count)) {
    if (by.group.delivered->test(each->slot())) continue;
    const std::byte* bad = nullptr;
    const delivery outcome = deliver_to_member(sender, *each, what, local, bad);
    if (bad != nullptr) return local_fault(bad);
    if (outcome == delivery::waits) {
      waits = true;
    } else {
      by.group.delivered->set(each->slot());
    }
  }
  by.group.waits = waits;
  by.group.psn = what.psn;
  return {.outcome = waits ? verdict::blocked : verdict::done};
}

group_sender::delivery group_sender::deliver_to_member(queue_pair& sender, peer& to,
                                                       const message& what,
                                                       std::span<const segment> local,
                                                       const std::byte*& bad) noexcept {
  if (request_bytes(what.transport, what.opcode) + what.length > to.max_record()) {
    sender.diagnosis().drops.note(
        {.why = reason::message_too_long,
         .length = what.length,
         .limit = to.max_record() - request_bytes(what.transport, what.opcode)});
    return delivery::dropped;
  }
  pushed all = push_to_member(to, what, local, bad);
  if (all == pushed::no_room) {
    // Try once more: room may have returned before the queue pair was known to wait.
    state_.wait_for_rings(sender);
    all = push_to_member(to, what, local, bad);
  }
  if (all == pushed::refused) return delivery::dropped;
  if (all == pushed::all) {
    to.no_room_since.store(0, std::memory_order_relaxed);
    state_.note_by_ring(sender, to);
    return delivery::done;
  }
  const time_ns now = state_.home.now();
  std::uint64_t since = 0;
  if (to.no_room_since.compare_exchange_strong(since, now)) since = now;
  // Another thread may have stored a later time.
  if (now < since + group_patience) {
    state_.home.schedule(sender, since + group_patience);
    return delivery::waits;
  }
  sender.diagnosis().drops.note(
      {.why = reason::path_full, .length = group_patience, .detail = first_number_of(to.slot())});
  return delivery::dropped;
}

pushed group_sender::push_to_member(peer& to, const message& what, std::span<const segment> local,
                                    const std::byte*& bad) noexcept {
  const auto lock = to.lock_sends();
  const auto record =
      to.try_reserve(type::request, request_bytes(what.transport, what.opcode) + what.length,
                     state_.reserve_for_answers());
  if (record.status != ring_status::ok) return pushed::no_room;
  std::span<std::byte> room = record.payload;
  put_request(room, what);
  bad = put_payload(room.first(what.length), local, 0);
  if (bad != nullptr) return pushed::refused;
  to.commit();
  to.announce();
  return pushed::all;
}

}  // namespace verbena::softdev
