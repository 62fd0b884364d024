// SPDX-License-Identifier: MIT
#include "softdev/core/send_window.hpp"

#include <array>

#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/same_process.hpp"

namespace verbena::softdev {
namespace {

completion_opcode completion_opcode_of(opcode op) {
  switch (op) {
    case opcode::rdma_write:
    case opcode::rdma_write_with_imm:
      return completion_opcode::rdma_write;
    case opcode::rdma_read:
      return completion_opcode::rdma_read;
    case opcode::compare_swap:
      return completion_opcode::compare_swap;
    case opcode::fetch_add:
      return completion_opcode::fetch_add;
    default:
      return completion_opcode::send;
  }
}

}  // namespace

void send_window::clear() noexcept {
  retired_ = submitted_ = queue_.posted();
  queue_.clear();
}

void send_window::skip_completed() noexcept {
  while (!idle() && queue_.at(retired_).stage == send_entry::progress::completed) ++retired_;
}

void send_window::flush(reason why) noexcept {
  while (!idle()) {
    const std::uint64_t index = retired_++;
    skip_completed();
    push(index, retired_, completion_status::flushed, why);
  }
  submitted_ = retired_;
}

std::size_t send_window::gather(std::uint64_t index, std::span<segment> out,
                                failure& why) noexcept {
  send_entry& entry = queue_.at(index);
  if (entry.request.flags.contains(send_flag::inline_data)) {
    out[0] = {send_queue::payload_of(entry), entry.inline_bytes};
    return entry.inline_bytes > 0 ? 1 : 0;
  }
  const access_flags needed = access_to_local(entry.request.opcode);
  const memory_region_table& regions = self_.home().regions();
  std::size_t count = 0;
  for (const sge& one : send_queue::sges_of(entry)) {
    if (one.length == 0) continue;
    std::byte* data =
        regions.check_local({one.lkey, one.address, one.length, needed, self_.domain()}, why);
    if (data == nullptr) return 0;
    out[count++] = {data, one.length};
  }
  return count;
}

failure send_window::place(std::uint64_t index, std::uint64_t offset,
                           std::span<const std::byte> bytes) noexcept {
  std::array<segment, limits::max_sges> sinks;
  failure why;
  const std::size_t count = gather(index, sinks, why);
  if (why.why != reason::none) return why;
  const auto [fault, piece] = scatter({sinks.data(), count}, offset, bytes);
  if (fault == copy_fault::none) return {};
  return name_local(index, local_fault(piece).why);
}

failure send_window::name_local(std::uint64_t index, const failure& why) noexcept {
  if (why.why != reason::local_not_mapped) return why;
  for (const sge& one : queue_.sges(index)) {
    failure ignored;
    const auto first = reinterpret_cast<std::uint64_t>(self_.home().regions().check_local(
        {one.lkey, one.address, one.length, {}, self_.domain()}, ignored));
    if (first == 0 || why.address - first >= one.length) continue;
    return {.why = why.why, .key = one.lkey, .address = one.address, .length = one.length};
  }
  return why;
}

void send_window::complete(std::uint64_t index, std::uint64_t released) noexcept {
  push(index, released, completion_status::success, reason::none);
}

void send_window::complete_failed(std::uint64_t index, std::uint64_t released,
                                  completion_status status, const failure& why) noexcept {
  self_.home().failures().record(self_.number(), queue_.at(index).request.wr_id, why);
  push(index, released, status, why.why);
}

void send_window::push(std::uint64_t index, std::uint64_t released, completion_status status,
                       reason why) noexcept {
  const send_entry& entry = queue_.at(index);
  const bool kept = self_.options().send_queue->push(
      {&queue_.released(), released}, false, [&](completion& made) {
        made.wr_id = entry.request.wr_id;
        made.status = status;
        made.opcode = completion_opcode_of(entry.request.opcode);
        made.flags = made.service_level = 0;
        made.byte_count = entry.byte_count;
        made.immediate = 0;
        made.source_qp = 0;
        made.source_lid = 0;
        made.path_bits = 0;
        made.qp_num = self_.number();
        made.vendor_error = static_cast<std::uint32_t>(why);
      });
  if (!kept && self_.fail()) self_.report(queue_pair_event::fatal);
}

}  // namespace verbena::softdev
