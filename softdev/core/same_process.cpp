// SPDX-License-Identifier: MIT
#include "softdev/core/same_process.hpp"

#include <algorithm>
#include <mutex>

#include "softdev/core/copy.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/route.hpp"

namespace verbena::softdev {
namespace {

response deliver(responder& receiver, std::span<const segment> payload) {
  for (const auto& [data, bytes] : payload) {
    response answer = receiver.place({data, bytes});
    if (answer.outcome != verdict::done) return answer;
  }
  return receiver.finish();
}

response fetch(responder& receiver, const message& what, std::span<const segment> sinks) {
  segment source;
  for (std::uint64_t offset = 0; offset < what.length; offset += source.bytes) {
    response answer = receiver.read(offset, what.length - offset, source);
    if (answer.outcome != verdict::done) return answer;
    const auto [fault, piece] = scatter(sinks, offset, {source.data, source.bytes});
    if (fault == copy_fault::source) return receiver.refuse_unmapped(offset, source.bytes);
    if (fault == copy_fault::sink) return receiver.interrupt(piece);
  }
  return receiver.finish();
}

}  // namespace

pieces_copied scatter(std::span<const segment> sinks, std::uint64_t offset,
                      std::span<const std::byte> bytes) noexcept {
  for (const auto& [data, room] : sinks) {
    if (bytes.empty()) break;
    if (offset >= room) {
      offset -= room;
      continue;
    }
    const auto part = std::min<std::uint64_t>(room - offset, bytes.size());
    const copy_fault fault = copy_payload(data + offset, bytes.data(), part);
    if (fault != copy_fault::none) return {fault, data};
    bytes = bytes.subspan(part);
    offset = 0;
  }
  return {};
}

response execute_in_process(queue_pair& target, const message& what,
                            std::span<const segment> local) noexcept {
  const std::lock_guard lock(target.receive_lock());
  // The peer of `target` has the sender's number, but is on another host.
  if (target.attributes().path_to_peer == path_to_peer::wire) [[unlikely]]
    return without_answer(reason::peer_not_connected, what);
  responder& receiver = target.receiver();
  response answer = receiver.begin(what);
  if (answer.outcome != verdict::done) return answer;
  if (what.opcode == opcode::rdma_read) return fetch(receiver, what, local);
  if (!is_atomic(what.opcode)) return deliver(receiver, local);
  answer = receiver.finish();
  if (answer.outcome != verdict::done) return answer;
  const auto [fault, piece] = scatter(local, 0, std::as_bytes(std::span(&answer.original, 1)));
  return fault == copy_fault::none ? answer : local_fault(piece);
}

}  // namespace verbena::softdev
