// SPDX-License-Identifier: MIT
// Byte offsets of the parts of a board; see rank_board.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/net/reduction.hpp"

namespace verbena::inline VERBENA_ABI::net::detail::board_layout {

inline constexpr std::size_t line = 64;
inline constexpr std::size_t word = sizeof(std::uint64_t);
inline constexpr std::uint32_t slots = 4;  // per sender and receiver
inline constexpr std::size_t slot_bytes = 8192;
static_assert(max_element_bytes <= slot_bytes);
inline constexpr std::size_t entered_words = line / word;
inline constexpr std::size_t failure_at = 0;
inline constexpr std::size_t entered_at = line;
inline constexpr std::size_t arrivals_at = 2 * line;

[[nodiscard]] inline std::size_t arrival_at(std::uint32_t rank, std::uint32_t number) {
  return arrivals_at + rank * line + number % slots * word;
}
[[nodiscard]] inline std::size_t acknowledged_at(std::uint32_t rank) {
  return arrivals_at + rank * line + slots * word;
}
// The state of `rank`, a word in the line that this rank writes on the boards of the others.
[[nodiscard]] inline std::size_t state_at(std::uint32_t rank) {
  return arrivals_at + rank * line + (slots + 2) * word;
}
// The line of outgoing words for a rank. Its words have the layout of the line that this rank
// writes on the other board.
[[nodiscard]] inline std::size_t outgoing_at(std::uint32_t rank, std::uint32_t size) {
  return arrivals_at + (std::size_t{size} + rank) * line;
}
[[nodiscard]] inline std::size_t outgoing_failure_at(std::uint32_t size) {
  return outgoing_at(size, size);
}
[[nodiscard]] inline std::size_t outgoing_state_at(std::uint32_t size) {
  return outgoing_failure_at(size) + word;
}
[[nodiscard]] inline std::size_t seen_at(std::uint32_t rank, std::uint32_t size) {
  return outgoing_at(size + 1 + rank, size);
}
[[nodiscard]] inline std::size_t payload_at(std::uint32_t rank, std::uint32_t number,
                                            std::uint32_t size) {
  return seen_at(size, size) + (std::size_t{rank} * slots + number % slots) * slot_bytes;
}
// The descriptions of the last operations of this rank, and those read from another rank.
inline constexpr std::size_t description_words = 4;
inline constexpr std::size_t descriptions = 16;
inline constexpr std::size_t description_bytes = descriptions * description_words * word;
[[nodiscard]] inline std::size_t descriptions_at(std::uint32_t size) {
  return payload_at(size, 0, size);
}
[[nodiscard]] inline std::size_t seen_descriptions_at(std::uint32_t size) {
  return descriptions_at(size) + description_bytes;
}
[[nodiscard]] inline std::size_t board_bytes(std::uint32_t size) {
  return seen_descriptions_at(size) + description_bytes;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail::board_layout
