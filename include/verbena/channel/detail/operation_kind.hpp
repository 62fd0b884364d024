// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The kind of an operation.
enum class operation_kind : std::uint8_t {
  send,
  write,
  read,
  compare_and_swap,
  fetch_and_add,
  receive,
  write_with_immediate,  ///< a posted write with immediate data
};
inline constexpr std::size_t operation_kinds = 7;
/// Counts per kind.
using kind_counts = std::array<std::uint64_t, operation_kinds>;

/// Returns true if the operation consumes a receive of the peer.
[[nodiscard]] constexpr bool is_message(operation_kind kind) noexcept {
  return kind == operation_kind::send || kind == operation_kind::write_with_immediate;
}

}  // namespace verbena::inline VERBENA_ABI::detail
