// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/message_packets.hpp"

#include <algorithm>

#include "softdev/core/copy.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {
namespace {

/// The operations of the packets of a message, by position.
struct packet_names {
  operation first;
  operation middle;
  operation last;
  operation only;
};
constexpr packet_names sends{operation::send_first, operation::send_middle, operation::send_last,
                             operation::send_only};
constexpr packet_names sends_with_imm{operation::send_first, operation::send_middle,
                                      operation::send_last_with_imm, operation::send_only_with_imm};
constexpr packet_names writes{operation::write_first, operation::write_middle,
                              operation::write_last, operation::write_only};
constexpr packet_names writes_with_imm{operation::write_first, operation::write_middle,
                                       operation::write_last_with_imm,
                                       operation::write_only_with_imm};
constexpr packet_names read_responses{operation::read_response_first,
                                      operation::read_response_middle,
                                      operation::read_response_last, operation::read_response_only};

const packet_names& names_of(opcode op) noexcept {
  if (is_write(op)) return has_immediate(op) ? writes_with_imm : writes;
  return has_immediate(op) ? sends_with_imm : sends;
}

operation name_at(const packet_names& names, std::uint32_t index, std::uint32_t count) noexcept {
  if (count == 1) return names.only;
  if (index == 0) return names.first;
  return index + 1 == count ? names.last : names.middle;
}

}  // namespace

operation request_operation(opcode op, std::uint32_t index, std::uint32_t count) noexcept {
  return name_at(names_of(op), index, count);
}

operation request_operation(opcode op) noexcept {
  switch (op) {
    case opcode::rdma_read:
      return operation::read_request;
    case opcode::compare_swap:
      return operation::compare_swap;
    case opcode::fetch_add:
      return operation::fetch_add;
    default:
      return request_operation(op, 0, 1);
  }
}

operation read_response_operation(std::uint32_t index, std::uint32_t count) noexcept {
  return name_at(read_responses, index, count);
}

packet_role role_of(packet_opcode code) noexcept {
  using enum place_in_message;
  switch (operation_of(code)) {
    case operation::send_first:
      return {true, opcode::send, first};
    case operation::send_middle:
      return {true, opcode::send, middle};
    case operation::send_last:
      return {true, opcode::send, last};
    case operation::send_last_with_imm:
      return {true, opcode::send, last, true};
    case operation::send_only:
      return {true, opcode::send, only};
    case operation::send_only_with_imm:
      return {true, opcode::send, only, true};
    case operation::write_first:
      return {true, opcode::rdma_write, first};
    case operation::write_middle:
      return {true, opcode::rdma_write, middle};
    case operation::write_last:
      return {true, opcode::rdma_write, last};
    case operation::write_last_with_imm:
      return {true, opcode::rdma_write, last, true};
    case operation::write_only:
      return {true, opcode::rdma_write, only};
    case operation::write_only_with_imm:
      return {true, opcode::rdma_write, only, true};
    default:
      return {};
  }
}

std::uint32_t packets_of(std::uint32_t bytes, std::uint32_t mtu) noexcept {
  return std::max<std::uint32_t>(1, bytes / mtu + (bytes % mtu != 0 ? 1 : 0));
}

std::uint32_t packets_of(const message& what, std::uint32_t mtu) noexcept {
  return is_atomic(what.opcode) ? 1 : packets_of(what.length, mtu);
}

atomic_operands operands_of(const message& what) noexcept {
  const bool compares = what.opcode == opcode::compare_swap;
  return {what.remote_address, what.remote_key, compares ? what.swap : what.compare_or_add,
          compares ? what.compare_or_add : 0};
}

void take_operands(const atomic_operands& from, message& out) noexcept {
  const bool compares = out.opcode == opcode::compare_swap;
  out.remote_address = from.address;
  out.remote_key = from.key;
  out.compare_or_add = compares ? from.compare : from.swap_or_add;
  out.swap = compares ? from.swap_or_add : 0;
}

std::uint8_t syndrome_of(const response& answer) noexcept {
  switch (answer.outcome) {
    case verdict::done:
      return syndrome_ack;
    case verdict::receiver_not_ready:
      return static_cast<std::uint8_t>(syndrome_rnr_nak | (answer.rnr_timer & 0x1fU));
    case verdict::invalid_request:
      return syndrome_invalid_request;
    case verdict::access_error:
      return syndrome_access_error;
    case verdict::operation_error:
      return syndrome_operation_error;
    default:
      return 0;
  }
}

void address_to_peer(const queue_pair& from, packet& out) noexcept {
  out.pkey = from.home().port().pkey(from.attributes().pkey_index);
  out.destination_qpn = from.attributes().destination_qpn;
}

packet packet_of(const message& what) noexcept {
  packet made;
  made.pkey = what.pkey;
  made.destination_qpn = what.destination_qpn;
  return made;
}

packet single_packet_of(const message& what, std::uint32_t psn) noexcept {
  packet made = packet_of(what);
  made.opcode = make_opcode(packet_transport::rc, request_operation(what.opcode));
  made.psn = psn;
  made.ack_requested = true;
  return made;
}

remote_range range_of_packets(const message& read, std::uint32_t begin, std::uint32_t end,
                              std::uint32_t mtu) noexcept {
  const std::uint32_t first = begin * mtu;
  const std::uint32_t last = std::min(end * mtu, read.length);
  return {read.remote_address + first, read.remote_key, last - first};
}

bool is_read_response(const packet& what, std::uint32_t bytes,
                      const response_position& where) noexcept {
  const operation kind = operation_of(what.opcode);
  const bool ends = kind == operation::read_response_last || kind == operation::read_response_only;
  const bool has_syndrome = kind != operation::read_response_middle;
  return (ends == where.is_last || (ends && where.can_end)) && what.payload.size() == bytes &&
         (!has_syndrome || is_ack_syndrome(what.answer.syndrome));
}

std::uint32_t executed_before(const packet& what) noexcept {
  const bool is_ack = operation_of(what.opcode) != operation::acknowledge ||
                      (what.opcode != packet_opcode::selective_acknowledgement &&
                       is_ack_syndrome(what.answer.syndrome));
  return psn_plus(what.psn, is_ack ? 1 : 0);
}

payload_reader::payload_reader(std::span<const segment> pieces, std::uint64_t offset) noexcept
    : rest_(pieces), offset_(offset) {
  drop_finished();
}

/// Moves to the segment that contains the next byte.
void payload_reader::drop_finished() noexcept {
  while (!rest_.empty() && offset_ >= rest_.front().bytes) {
    offset_ -= rest_.front().bytes;
    rest_ = rest_.subspan(1);
  }
}

std::span<const std::byte> payload_reader::take(std::size_t bytes) noexcept {
  std::size_t filled = 0;
  while (filled < bytes && !rest_.empty()) {
    const segment& piece = rest_.front();
    const auto part =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes - filled, piece.bytes - offset_));
    if (copy_payload(chunk_.data() + filled, piece.data + offset_, part) != copy_fault::none) break;
    filled += part;
    offset_ += part;
    if (offset_ < piece.bytes) continue;
    rest_ = rest_.subspan(1);
    offset_ = 0;
  }
  if (filled < bytes) piece_ = rest_.empty() ? nullptr : rest_.front().data;
  return std::span(chunk_).first(filled);
}

std::span<const std::byte> payload_reader::view(std::size_t bytes) noexcept {
  if (rest_.empty() || rest_.front().bytes - offset_ < bytes) return take(bytes);
  const segment piece = rest_.front();
  piece_ = piece.data;
  const std::span<const std::byte> seen(piece.data + offset_, bytes);
  offset_ += bytes;
  if (offset_ == piece.bytes) {
    rest_ = rest_.subspan(1);
    offset_ = 0;
  }
  return seen;
}

}  // namespace verbena::softdev::wire
