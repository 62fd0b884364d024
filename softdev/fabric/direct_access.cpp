// SPDX-License-Identifier: MIT
#include "softdev/fabric/direct_access.hpp"

#include <array>

#include "softdev/core/atomic.hpp"
#include "softdev/core/copy.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/same_process.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/fabric/published_views.hpp"

namespace verbena::softdev {
namespace {

/// From this length on, waiting until a request can be executed directly costs less than sending
/// its payload through the ring, where it is copied twice.
constexpr std::uint64_t min_waiting_bytes = 4096;

constexpr response executed{.outcome = verdict::done, .direct = true};

struct reachable {
  region_record region;
  std::uint64_t offset = 0;  ///< of the first byte in the region
};

/// Returns the target's memory, mapped in this process; nullptr if it is not, or not yet.
std::byte* map_target(peer& at, const message& what, const reachable& where) noexcept {
  if (where.region.arena == 0) return nullptr;
  const map_access wanted =
      what.opcode == opcode::rdma_read ? map_access::read_only : map_access::read_write;
  const auto mapped =
      at.map(where.region.arena, where.region.arena_offset + where.offset, what.length, wanted);
  return mapped.status == map_status::ready ? mapped.address : nullptr;
}

std::optional<response> execute_mapped(const peer& at, const message& what,
                                       std::span<const segment> local, const reachable& where,
                                       std::byte* memory) noexcept {
  if (is_atomic(what.opcode)) {
    std::uint64_t original = 0;
    if (execute_atomic(memory, what, original) != atomic_outcome::done) return std::nullopt;
    const auto [fault, piece] = scatter(local, 0, std::as_bytes(std::span(&original, 1)));
    if (fault != copy_fault::none) return local_fault(piece);
  } else if (what.opcode == opcode::rdma_read) {
    const auto [fault, piece] = scatter(local, 0, {memory, what.length});
    if (fault == copy_fault::sink) return local_fault(piece);
    if (fault == copy_fault::source) return std::nullopt;
  } else {
    std::byte* to = memory;
    for (const auto& [data, bytes] : local) {
      const copy_fault fault = copy_payload(to, data, bytes);
      if (fault == copy_fault::source) return local_fault(data);
      if (fault == copy_fault::sink) return std::nullopt;
      to += bytes;
    }
  }
  // If the owner gave the region other pages meanwhile, what we did was on the old ones.
  if (!at.segment().is_current(where.region)) return std::nullopt;
  return executed;
}

bool execute_copied(peer& at, const message& what, std::span<const segment> local,
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

}  // namespace

std::optional<response> direct_access::execute(const queue_pair& sender, peer& at,
                                               const message& what, std::span<const segment> local,
                                               bool earlier_done) noexcept {
  if (consumes_receive(what.opcode)) return std::nullopt;
  const bool may_wait = rules_of(what.transport).acknowledged && what.length >= min_waiting_bytes;
  if (!earlier_done && !may_wait) return std::nullopt;
  const active_section section = at.enter();
  if (!section) return std::nullopt;
  const auto responder = read_queue_pair(at.segment(), sender, what);
  if (!responder) return std::nullopt;
  reachable where;
  const bool accesses = accesses_region(what);
  if (accesses && at.segment().find_region(what.remote_key, where.region) != lookup::found)
    return std::nullopt;
  const region_view region = view_of(where.region);
  if (admit(*responder, accesses ? &region : nullptr, what).outcome != verdict::done)
    return std::nullopt;
  if (!accesses) return executed;
  where.offset = what.remote_address - where.region.iova;
  if (std::byte* memory = map_target(at, what, where)) {
    if (!earlier_done) return response{.outcome = verdict::blocked};
    if (const auto outcome = execute_mapped(at, what, local, where, memory)) {
      mapped_.add();
      return outcome;
    }
  }
  // Not to shareable memory: a fence replaces its pages and passes over a stopped peer, which must
  // not find the owner's new pages by their address when it continues.
  const bool may_copy = where.region.arena == 0 && !is_atomic(what.opcode);
  if (!earlier_done || !may_copy || !execute_copied(at, what, local, where)) return std::nullopt;
  copied_.add();
  return executed;
}

}  // namespace verbena::softdev
