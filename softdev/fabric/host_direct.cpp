// SPDX-License-Identifier: MIT
// Initiator-side execution: a write, read or atomic done by the requester's thread on the memory of
// the responder's process. Everything here answers "done" or "not so": whatever is not plainly
// allowed goes to the responder, which has the last word and refuses in due form.
#include <array>
#include <atomic>

#include "softdev/core/copy.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/same_process.hpp"
#include "softdev/fabric/host_path.hpp"

namespace verbena::softdev {
namespace {

access_flags rights_for(opcode op) noexcept {
  if (op == opcode::rdma_write) return access::remote_write;
  if (op == opcode::rdma_read) return access::remote_read;
  return access::remote_atomic;
}

/// From this length on, waiting until a request can be executed directly costs less than sending
/// its payload through the ring, where it is copied twice.
constexpr std::uint64_t min_waiting_bytes = 4096;

std::uint64_t execute_atomic(std::byte* where, const message& what) noexcept {
  std::atomic_ref<std::uint64_t> value(*reinterpret_cast<std::uint64_t*>(where));
  if (what.opcode == opcode::fetch_add) return value.fetch_add(what.compare_or_add);
  std::uint64_t original = what.compare_or_add;
  value.compare_exchange_strong(original, what.swap);
  return original;
}

}  // namespace

std::optional<response> host_path::execute_directly(queue_pair& sender, peer& at,
                                                    const message& what,
                                                    std::span<const segment> local,
                                                    bool earlier_done) noexcept {
  if (consumes_receive(what.opcode)) return std::nullopt;
  const bool may_wait = is_reliable(what.transport) && what.length >= min_waiting_bytes;
  if (!earlier_done && !may_wait) return std::nullopt;
  const active_section section = at.enter();
  std::uint32_t domain = 0;
  if (!section || !may_execute(sender, at, what, domain)) return std::nullopt;
  constexpr response executed{.outcome = verdict::done, .direct = true};
  if (what.length == 0) return executed;
  reachable where;
  if (!find_target(at, what, domain, where)) return std::nullopt;
  if (std::byte* memory = map_target(at, what, where)) {
    if (!earlier_done) return response{.outcome = verdict::blocked};
    if (execute_mapped(at, what, local, where, memory)) {
      count(mapped_);
      return executed;
    }
  }
  if (!earlier_done || is_atomic(what.opcode) || !execute_copied(at, what, local, where))
    return std::nullopt;
  count(copied_);
  return executed;
}

/// True when the responder would take the request: it is ready, connected to the sender, agrees on
/// the sequence, and allows the operation. `domain` becomes its protection domain.
bool host_path::may_execute(const queue_pair& sender, peer& at, const message& what,
                            std::uint32_t& domain) noexcept {
  queue_pair_record target;
  if (at.segment().find_queue_pair(what.destination_qpn, target) != lookup::found) return false;
  const auto state = static_cast<queue_pair_state>(target.state);
  if (state != queue_pair_state::rtr && state != queue_pair_state::rts &&
      state != queue_pair_state::sqd)
    return false;
  domain = target.pd;
  const std::uint64_t note = at.segment().line(what.destination_qpn).notes[0].load();
  const bool reads = note >> 32U != 0;
  const std::uint64_t port = at.segment().line(what.destination_qpn).notes[1].load();
  const bool arrives = port >> 16U == (std::uint64_t{1} << 16U | what.destination_lid) &&
                       same_partition(what.partition, static_cast<std::uint16_t>(port));
  const bool expected = target.peer_qpn == what.source_qpn
                            ? static_cast<std::uint32_t>(note) ==
                                  sequence_note(sender.transport(), sender.attributes().send_psn)
                            : what.transport == transport::srd &&
                                  note == (std::uint64_t{what.qkey} << 32U | delivery_note);
  return arrives && expected &&
         access_flags::from_mask(target.access).contains(rights_for(what.opcode)) &&
         (reads || !is_read_or_atomic(what.opcode) || what.transport == transport::srd);
}

bool host_path::find_target(peer& at, const message& what, std::uint32_t domain,
                            reachable& out) noexcept {
  if (at.segment().find_region(what.remote_key, out.region) != lookup::found) return false;
  out.offset = what.remote_address - out.region.iova;
  return out.region.pd == domain && what.length <= out.region.length &&
         out.offset <= out.region.length - what.length &&
         access_flags::from_mask(out.region.access).contains(rights_for(what.opcode));
}

/// Returns the target's memory, mapped in this process; nullptr if it is not, or not yet.
std::byte* host_path::map_target(peer& at, const message& what, const reachable& where) noexcept {
  if (where.region.arena == 0) return nullptr;
  const map_access wanted =
      what.opcode == opcode::rdma_read ? map_access::read_only : map_access::read_write;
  const auto mapped =
      at.map(where.region.arena, where.region.arena_offset + where.offset, what.length, wanted);
  return mapped.status == map_status::ready ? mapped.address : nullptr;
}

bool host_path::execute_mapped(peer& at, const message& what, std::span<const segment> local,
                               const reachable& where, std::byte* memory) noexcept {
  if (is_atomic(what.opcode)) {
    if (what.remote_address % 8 != 0 || reinterpret_cast<std::uintptr_t>(memory) % 8 != 0)
      return false;
    const std::uint64_t original = execute_atomic(memory, what);
    scatter(local, 0, std::as_bytes(std::span(&original, 1)));
  } else if (what.opcode == opcode::rdma_read) {
    scatter(local, 0, {memory, what.length});
  } else {
    std::byte* to = memory;
    for (const auto& [data, bytes] : local) {
      copy_payload(to, data, bytes);
      to += bytes;
    }
  }
  // If the owner gave the region other pages meanwhile, what we did was on the old ones.
  return at.segment().is_current(where.region);
}

bool host_path::execute_copied(peer& at, const message& what, std::span<const segment> local,
                               const reachable& where) noexcept {
  std::array<iovec, limits::max_sges> pieces;
  for (std::size_t i = 0; i < local.size(); ++i) pieces[i] = {local[i].data, local[i].bytes};
  const std::span<const iovec> list(pieces.data(), local.size());
  const std::uint64_t address = where.region.address + where.offset;
  const copy_outcome outcome = what.opcode == opcode::rdma_read
                                   ? at.read(list, address, what.length)
                                   : at.write(list, address, what.length);
  return outcome.status == copy_status::ok;
}

}  // namespace verbena::softdev
