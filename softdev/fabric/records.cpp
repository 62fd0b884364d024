// SPDX-License-Identifier: MIT
#include "softdev/fabric/records.hpp"

#include <algorithm>

#include "softdev/core/copy.hpp"
#include "softdev/core/transport/rules.hpp"

namespace verbena::softdev::records {
namespace {

// Above the path bits.
constexpr std::uint64_t route_bit = 1U << 8U;
constexpr unsigned service_level_at = 16;
constexpr unsigned lid_at = 32;

std::uint64_t origin_word(const datagram_origin& from) noexcept {
  return from.path_bits | (from.has_grh ? route_bit : 0) |
         std::uint64_t{from.service_level} << service_level_at | std::uint64_t{from.lid} << lid_at;
}

datagram_origin to_origin(std::uint64_t word) noexcept {
  return {.lid = static_cast<std::uint16_t>(word >> lid_at),
          .service_level = static_cast<std::uint8_t>(word >> service_level_at),
          .path_bits = static_cast<std::uint8_t>(word),
          .has_grh = (word & route_bit) != 0};
}

std::uint8_t kind_of(const message& what) noexcept {
  return static_cast<std::uint8_t>(static_cast<unsigned>(what.transport) |
                                   (what.solicited ? solicited_bit : 0U) |
                                   (what.signaled ? signaled_bit : 0U));
}

std::uint8_t transport_of(const request_header& header) noexcept {
  return header.kind & static_cast<std::uint8_t>(~(solicited_bit | signaled_bit));
}

bool makes_sense(const request_header& header) noexcept {
  const std::uint8_t number = transport_of(header);
  if (number >= detail::all_rules.size()) return false;
  const transport_rules& rules = rules_of(static_cast<transport>(number));
  const auto op = static_cast<opcode>(header.opcode);
  return rules.carries(op) && rules.may_have(op, header.length);
}

void put_header(request_header& out, const message& what, const request_part& part) noexcept {
  const bool is_datagram = rules_of(what.transport).mode == delivery_mode::datagrams;
  out.destination_qpn = what.destination_qpn;
  out.source_qpn = what.source_qpn;
  out.psn = what.psn;
  out.attempt = what.attempt;
  out.opcode = static_cast<std::uint8_t>(part.opcode);
  out.kind = kind_of(what);
  out.length = part.length;
  out.immediate = what.immediate;
  out.remote_address = is_datagram ? origin_word(what.origin) : what.remote_address;
  out.remote_key = is_datagram ? what.qkey : what.remote_key;
  out.pkey = what.pkey;
  out.destination_lid = what.destination_lid;
}

/// Takes the fields that differ between transports. Returns false if bytes are missing.
bool take_address(const request_header& header, std::span<const std::byte>& bytes,
                  message& out) noexcept {
  const delivery_mode mode = rules_of(out.transport).mode;
  if (mode == delivery_mode::datagrams) {
    out.origin = to_origin(header.remote_address);
    out.qkey = header.remote_key;
    return true;
  }
  out.remote_address = header.remote_address;
  out.remote_key = header.remote_key;
  if (mode == delivery_mode::stream) return true;
  const auto more = take<delivery_header>(bytes);
  if (!more) return false;
  out.qkey = more->qkey;
  out.earlier_bytes = more->earlier_bytes;
  if (out.earlier_bytes > limits::max_message_bytes - out.length) return false;
  // Each part is a whole request.
  return bytes.size() == (is_read_or_atomic(out.opcode) ? 0 : out.length);
}

/// Takes the headers in front of the payload of a request. Inlined for short requests.
[[gnu::always_inline]] inline bool take_headers(std::span<const std::byte>& bytes,
                                                message& out) noexcept {
  const auto header = take<request_header>(bytes);
  if (!header || !makes_sense(*header)) return false;
  out.opcode = static_cast<opcode>(header->opcode);
  out.solicited = (header->kind & solicited_bit) != 0;
  out.signaled = (header->kind & signaled_bit) != 0;
  out.attempt = header->attempt;
  out.pkey = header->pkey;
  out.destination_lid = header->destination_lid;
  out.source_qpn = header->source_qpn;
  out.destination_qpn = header->destination_qpn;
  out.psn = header->psn;
  out.immediate = header->immediate;
  out.length = header->length;
  out.transport = static_cast<transport>(transport_of(*header));
  if (!take_address(*header, bytes, out)) return false;
  if (is_atomic(out.opcode)) {
    const auto values = take<operands>(bytes);
    if (!values || out.length != 8) return false;
    out.compare_or_add = values->compare_or_add;
    out.swap = values->swap;
  }
  return true;
}

}  // namespace

const std::byte* put_payload(std::span<std::byte> room, std::span<const segment> pieces,
                             std::uint64_t offset) noexcept {
  if (pieces.size() == 1 && offset == 0) {
    const bool copied = copy_payload(room.data(), pieces[0].data, room.size()) == copy_fault::none;
    return copied ? nullptr : pieces[0].data;
  }
  for (const auto& [data, size] : pieces) {
    if (room.empty()) break;
    if (offset >= size) {
      offset -= size;
      continue;
    }
    const std::size_t part = std::min<std::uint64_t>(size - offset, room.size());
    if (copy_payload(room.data(), data + offset, part) != copy_fault::none) return data;
    room = room.subspan(part);
    offset = 0;
  }
  return nullptr;
}

void put_request(std::span<std::byte>& room, const message& what) noexcept {
  put_request_part(room, what, {what.opcode, what.length});
}

void put_request_part(std::span<std::byte>& room, const message& what,
                      const request_part& part) noexcept {
  put_header(make<request_header>(room), what, part);
  if (rules_of(what.transport).mode == delivery_mode::parts)
    put(room, delivery_header{what.qkey, what.earlier_bytes});
  if (is_atomic(part.opcode)) put(room, operands{what.compare_or_add, what.swap});
}

bool take_request(std::span<const std::byte>& bytes, message& out) noexcept {
  if (!take_headers(bytes, out)) return false;
  const std::size_t most = is_read_or_atomic(out.opcode) ? 0 : out.length;
  return bytes.size() <= most && (!bytes.empty() || most == 0);
}

std::uint32_t reference_bytes(transport kind, opcode op, std::size_t elements) noexcept {
  return static_cast<std::uint32_t>(request_bytes(kind, op) + sizeof(reference_header) +
                                    elements * sizeof(sge));
}

void put_reference(std::span<std::byte>& room, const message& what, std::uint64_t generation,
                   std::size_t elements) noexcept {
  put_request(room, what);
  put(room, reference_header{generation, static_cast<std::uint32_t>(elements), 0});
}

bool take_reference(std::span<const std::byte> bytes, message& out,
                    payload_reference& payload) noexcept {
  if (!take_headers(bytes, out)) return false;
  const transport_rules& rules = rules_of(out.transport);
  if (!rules.acknowledged || rules.mode != delivery_mode::stream || is_read_or_atomic(out.opcode))
    return false;
  const auto header = take<reference_header>(bytes);
  if (!header || header->elements > payload.elements.size() ||
      bytes.size() != header->elements * sizeof(sge))
    return false;
  payload.generation = header->generation;
  payload.count = header->elements;
  std::memcpy(payload.elements.data(), bytes.data(), bytes.size());
  std::uint64_t total = 0;
  for (const sge& element : payload.list()) {
    if (element.length == 0) return false;
    total += element.length;
  }
  return total == out.length && total > 0;
}

std::uint32_t answer_bytes(const response& what) noexcept {
  const failure& why = what.why;
  const bool numbers = why.address != 0 || why.length != 0 || why.base != 0 || why.limit != 0;
  return sizeof(answer_header) + (numbers ? sizeof(failure_numbers) : 0);
}

void put_answer(std::span<std::byte>& room, const fragment_header& to,
                const response& what) noexcept {
  const failure& why = what.why;
  const bool numbers = answer_bytes(what) > sizeof(answer_header);
  auto& header = make<answer_header>(room);
  header.destination_qpn = to.destination_qpn;
  header.source_qpn = to.source_qpn;
  header.psn = to.psn;
  header.attempt = static_cast<std::uint16_t>(to.attempt);
  header.outcome = static_cast<std::uint8_t>(what.outcome);
  header.rnr_timer = what.rnr_timer;
  header.original = what.original;
  header.why = static_cast<std::uint32_t>(why.why);
  header.detail = why.detail;
  header.extra = why.extra;
  header.key = why.key;
  if (numbers && room.size() >= sizeof(failure_numbers))
    put(room, failure_numbers{why.address, why.length, why.base, why.limit});
}

std::optional<taken_answer> take_answer(std::span<const std::byte>& bytes) noexcept {
  const auto header = take<answer_header>(bytes);
  if (!header || header->outcome > static_cast<std::uint8_t>(verdict::operation_error) ||
      header->rnr_timer > 31)
    return std::nullopt;
  taken_answer taken{
      .to = {header->destination_qpn, header->source_qpn, header->psn, header->attempt, 0},
      .what = {.outcome = static_cast<verdict>(header->outcome),
               .rnr_timer = header->rnr_timer,
               .original = header->original,
               .why = {.why = static_cast<reason>(header->why),
                       .key = header->key,
                       .detail = header->detail,
                       .extra = header->extra}}};
  if (const auto numbers = take<failure_numbers>(bytes)) {
    taken.what.why.address = numbers->address;
    taken.what.why.length = numbers->length;
    taken.what.why.base = numbers->base;
    taken.what.why.limit = numbers->limit;
  }
  return taken;
}

}  // namespace verbena::softdev::records
