// SPDX-License-Identifier: MIT
// The queue pair numbers of a process. Each process of a user holds a slot, which is a range of
// queue pair numbers. A large slot has all the numbers that a process can use; there are more small
// slots. The ranges do not overlap and cover all 24-bit numbers.
#pragma once

#include <cstdint>

#include "softdev/core/types.hpp"

namespace verbena::softdev {

inline constexpr std::uint32_t large_slots = 832;
inline constexpr std::uint32_t small_slots = 3072;
inline constexpr std::uint32_t slot_count = large_slots + small_slots;
inline constexpr std::uint32_t large_slot_numbers = limits::queue_pair_indices;
inline constexpr std::uint32_t small_slot_numbers = 1024;
inline constexpr std::uint32_t large_slots_end = large_slots * large_slot_numbers;
static_assert(large_slots_end + small_slots * small_slot_numbers == 1U << 24U);
static_assert(large_slot_numbers % small_slot_numbers == 0, "a small slot's indices are distinct");

/// Returns the number of queue pair numbers of a slot.
[[nodiscard]] constexpr std::uint32_t count_of_numbers(std::uint32_t slot) noexcept {
  return slot < large_slots ? large_slot_numbers : small_slot_numbers;
}
/// Returns the first queue pair number of a slot. Precondition: slot < slot_count.
[[nodiscard]] constexpr std::uint32_t first_number_of(std::uint32_t slot) noexcept {
  return slot < large_slots ? slot * large_slot_numbers
                            : large_slots_end + (slot - large_slots) * small_slot_numbers;
}
/// Returns the slot of a queue pair number. Precondition: qpn < 2^24.
[[nodiscard]] constexpr std::uint32_t slot_of_number(std::uint32_t qpn) noexcept {
  return qpn < large_slots_end ? qpn / large_slot_numbers
                               : large_slots + (qpn - large_slots_end) / small_slot_numbers;
}
/// Returns the index of a queue pair number in the process's tables of its own queue pairs.
[[nodiscard]] constexpr std::uint32_t index_of_number(std::uint32_t qpn) noexcept {
  return qpn % limits::queue_pair_indices;
}
/// Returns the number in the slot that has the index, if the slot has one.
[[nodiscard]] constexpr std::uint32_t number_at(std::uint32_t slot, std::uint32_t index) noexcept {
  const std::uint32_t first = first_number_of(slot);
  return first - index_of_number(first) + index;
}
/// Returns the maximum number of queue pairs of a process with the slot. Some numbers are always
/// free, so that a random choice soon finds one.
[[nodiscard]] constexpr std::uint32_t max_queue_pairs_of(std::uint32_t slot) noexcept {
  return count_of_numbers(slot) - (limits::queue_pair_indices - limits::max_queue_pairs);
}

}  // namespace verbena::softdev
