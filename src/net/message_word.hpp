// SPDX-License-Identifier: MIT
// The words of a rank_board: a tag in the upper 32 bits and a number in the lower 32 bits.
#pragma once

#include <cstdint>

#include "verbena/base/config.hpp"

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

/// Computes the tag of an operation with FNV-1a. If two different operations have equal tags,
/// mixing them up is not detected.
/// Threads: one thread at a time.
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
