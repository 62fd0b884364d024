// SPDX-License-Identifier: MIT
// The words of a rank_board: a tag in the upper 32 bits and a number in the lower 32 bits.
#pragma once

#include <cstdint>

#include "verbena/base/config.hpp"
#include "verbena/net/reduction.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

[[nodiscard]] inline std::uint64_t word_of(std::uint32_t tag, std::uint32_t number) {
  return std::uint64_t{tag} << 32U | number;
}
[[nodiscard]] inline std::uint32_t number_of(std::uint64_t of) {
  return static_cast<std::uint32_t>(of);
}
[[nodiscard]] inline std::uint32_t tag_of(std::uint64_t of) {
  return static_cast<std::uint32_t>(of >> 32U);
}
/// Returns true if `number` precedes `other`. The numbers of messages and operations wrap.
[[nodiscard]] inline bool is_before(std::uint32_t number, std::uint32_t other) {
  return static_cast<std::int32_t>(number - other) < 0;
}

/// Returns the tag of an operation: 24 bits of a hash, and 4 bits for each kind.
[[nodiscard]] inline std::uint32_t tag_with_kinds(std::uint32_t hash, element_kind element,
                                                  operator_kind operation) {
  return (hash & ~0xffU) | static_cast<std::uint32_t>(element) << 4U |
         static_cast<std::uint32_t>(operation);
}
[[nodiscard]] inline element_kind element_of(std::uint32_t tag) {
  return static_cast<element_kind>(tag >> 4U & 0xfU);
}
[[nodiscard]] inline operator_kind operator_of(std::uint32_t tag) {
  return static_cast<operator_kind>(tag & 0xfU);
}
/// Returns true if the tags are those of one operation. `other` is equal to each kind.
[[nodiscard]] inline bool is_one_operation(std::uint32_t tag, std::uint32_t other) {
  const auto agree = [](auto a, auto b) {
    return a == b || a == decltype(a){} || b == decltype(b){};
  };
  return (tag & ~0xffU) == (other & ~0xffU) && agree(element_of(tag), element_of(other)) &&
         agree(operator_of(tag), operator_of(other));
}

/// Computes the tag of an operation, or of a list of ranks, with FNV-1a. If two different
/// operations have equal tags, mixing them up is not detected. Threads: one thread at a time.
class operation_tag {
 public:
  void mix(std::uint64_t value) {
    for (const auto half : {number_of(value), tag_of(value)}) hash_ = (hash_ ^ half) * 16777619U;
  }
  [[nodiscard]] std::uint32_t value() const { return hash_ == 0 ? 1 : hash_; }

 private:
  std::uint32_t hash_ = 2166136261U;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
