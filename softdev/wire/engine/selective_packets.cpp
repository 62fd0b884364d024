// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/selective_packets.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

#include "softdev/wire/byte_cursor.hpp"

namespace verbena::softdev::wire {
namespace {

/// Distinguishes the packets from those of other vendors. The last byte is the version.
constexpr std::uint64_t selective_signature = 0x7665'7262'656e'6101;  // "verbena", 1
constexpr std::size_t signature_bytes = sizeof selective_signature;

bool has_signature(const packet& what, std::size_t bytes) noexcept {
  return what.payload.size() == bytes &&
         byte_source(what.payload).take<std::uint64_t>() == selective_signature;
}

}  // namespace

packet make_selective_offer(std::uint32_t expected, selective_payload& payload) noexcept {
  byte_sink(payload).put(selective_signature);
  packet made{.opcode = packet_opcode::selective_offer};
  made.psn = expected;
  made.payload = std::span(payload).first<signature_bytes>();
  return made;
}

packet make_selective_acknowledgement(const psn_set& received,
                                      selective_payload& payload) noexcept {
  byte_sink out(payload);
  out.put(selective_signature);
  for (const std::uint64_t word : received.words) out.put(word);
  packet made{.opcode = packet_opcode::selective_acknowledgement};
  made.psn = received.first;
  made.payload = payload;
  return made;
}

bool is_selective_offer(const packet& what) noexcept {
  return what.opcode == packet_opcode::selective_offer && has_signature(what, signature_bytes);
}

bool is_selective_acknowledgement(const packet& what) noexcept {
  return what.opcode == packet_opcode::selective_acknowledgement &&
         has_signature(what, selective_payload_bytes);
}

psn_set received_packets(const packet& what) noexcept {
  byte_source in(what.payload);
  in.skip(signature_bytes);
  psn_set made{.first = what.psn};
  for (std::uint64_t& word : made.words) word = in.take<std::uint64_t>();
  made.words[0] &= ~std::uint64_t{1};
  return made;
}

}  // namespace verbena::softdev::wire
