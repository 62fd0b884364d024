// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// Selects the ranks that notify each other in a barrier of n ranks. Each notification is one RDMA
/// write.
enum class barrier_algorithm : std::uint8_t {
  /// ceil(log2 n) rounds. In round k, each rank notifies the rank 2^k positions after it in the
  /// list, modulo n, and waits for the rank 2^k positions before it.
  dissemination,
  /// Each rank waits for its two children, notifies its parent, and waits for the parent's
  /// notification: 2 (n - 1) writes; the longest chain has about 2 log2 n writes.
  binary_tree,
  /// All ranks notify the first rank of the list, which then notifies all others: 2 (n - 1) writes,
  /// n - 1 of them by the first rank.
  central,
};

/// Returns `dissemination`, `binary tree` or `central`.
[[nodiscard]] std::string to_string(barrier_algorithm of);

}  // namespace verbena::inline VERBENA_ABI::net
