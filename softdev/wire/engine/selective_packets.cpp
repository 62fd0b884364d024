// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/selective_packets.hpp"

#include <algorithm>
#include <span>

#include "softdev/wire/byte_cursor.hpp"

namespace verbena::softdev::wire {
namespace {

/// Distinguishes the packets from those of other vendors. The last byte is the version.
constexpr std::uint64_t selective_signature = 0x7665'7262'656e'6101;  // "verbena", 1
constexpr std::uint64_t window_signature = selective_signature + 1;
constexpr std::size_t signature_bytes = sizeof selective_signature;
constexpr std::size_t word_bytes = psn_set::word_bits / 8;
constexpr std::size_t base_report_bytes = signature_bytes + base_reach / 8;
constexpr std::size_t window_offer_bytes = signature_bytes + sizeof(std::uint32_t);
constexpr std::size_t grant_bytes = signature_bytes + sizeof(std::uint32_t);

bool has_signature(const packet& what, std::uint64_t signature) noexcept {
  return what.payload.size() >= signature_bytes &&
         byte_source(what.payload).take<std::uint64_t>() == signature;
}

bool has_window_signature(const packet& what, std::size_t bytes) noexcept {
  return what.payload.size() == bytes && has_signature(what, window_signature);
}

std::uint32_t value_of(const packet& what) noexcept {
  byte_source in(what.payload);
  in.skip(signature_bytes);
  return in.take<std::uint32_t>();
}

packet make_with_value(packet_opcode code, std::uint32_t value,
                       selective_payload& payload) noexcept {
  byte_sink out(payload);
  out.put(window_signature);
  out.put(value);
  packet made{.opcode = code};
  made.payload = std::span(payload).first<signature_bytes + sizeof value>();
  return made;
}

}  // namespace

packet make_selective_offer(std::uint32_t expected, selective_payload& payload) noexcept {
  byte_sink(payload).put(selective_signature);
  packet made{.opcode = packet_opcode::selective_offer};
  made.psn = expected;
  made.payload = std::span(payload).first<signature_bytes>();
  return made;
}

packet make_selective_acknowledgement(const psn_set& received, std::uint32_t reach,
                                      selective_payload& payload) noexcept {
  const bool is_base = reach <= base_reach;
  const auto last = static_cast<std::uint32_t>(psn_distance(received.first, received.end()));
  const std::size_t words =
      is_base ? base_reach / psn_set::word_bits
              : std::max((last + psn_set::word_bits - 1) / psn_set::word_bits, 1U);
  byte_sink out(payload);
  out.put(is_base ? selective_signature : window_signature);
  for (std::size_t i = 0; i < words; ++i) out.put(received.words[i]);
  packet made{.opcode = packet_opcode::selective_acknowledgement};
  made.psn = received.first;
  made.payload = std::span(payload).first(signature_bytes + words * word_bytes);
  return made;
}

packet make_window_offer(std::uint32_t expected, selective_payload& payload) noexcept {
  packet made = make_with_value(packet_opcode::selective_offer, psn_set::capacity, payload);
  made.psn = expected;
  return made;
}

packet make_window_grant(std::uint32_t expected, std::uint32_t reach,
                         selective_payload& payload) noexcept {
  packet made = make_with_value(packet_opcode::selective_acknowledgement, reach, payload);
  made.psn = expected;
  return made;
}

bool is_selective_offer(const packet& what) noexcept {
  return what.opcode == packet_opcode::selective_offer && what.payload.size() == signature_bytes &&
         has_signature(what, selective_signature);
}

bool is_selective_acknowledgement(const packet& what) noexcept {
  const std::size_t bytes = what.payload.size();
  if (what.opcode != packet_opcode::selective_acknowledgement) return false;
  if (bytes == base_report_bytes && has_signature(what, selective_signature)) return true;
  return bytes > signature_bytes && bytes <= selective_payload_bytes && bytes % word_bytes == 0 &&
         has_signature(what, window_signature);
}

bool is_window_offer(const packet& what) noexcept {
  return what.opcode == packet_opcode::selective_offer &&
         has_window_signature(what, window_offer_bytes);
}

bool is_window_grant(const packet& what) noexcept {
  return what.opcode == packet_opcode::selective_acknowledgement &&
         has_window_signature(what, grant_bytes);
}

psn_set received_packets(const packet& what) noexcept {
  byte_source in(what.payload);
  in.skip(signature_bytes);
  psn_set made{.first = what.psn};
  const std::size_t words = (what.payload.size() - signature_bytes) / word_bytes;
  for (std::size_t i = 0; i < words; ++i) made.words[i] = in.take<std::uint64_t>();
  made.words[0] &= ~std::uint64_t{1};
  return made;
}

std::uint32_t granted_reach(const packet& what) noexcept { return value_of(what); }

}  // namespace verbena::softdev::wire
