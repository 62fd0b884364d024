// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// What an operation does.
enum class operation_kind : std::uint8_t {
  send,
  write,
  read,
  compare_and_swap,
  fetch_and_add,
  receive,
  write_with_immediate,  ///< what a write with a number for the peer counts as, once posted
};
inline constexpr std::size_t operation_kinds = 7;
/// How many of each kind.
using kind_counts = std::array<std::uint64_t, operation_kinds>;

/// Whether it uses up a receive of the peer.
[[nodiscard]] constexpr bool is_message(operation_kind kind) noexcept {
  return kind == operation_kind::send || kind == operation_kind::write_with_immediate;
}

}  // namespace verbena::inline VERBENA_ABI::detail
