// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// Which ranks notify each other in a barrier of n ranks. Each notification is one RDMA write.
enum class barrier_algorithm : std::uint8_t {
  /// ceil(log2 n) rounds. In round k, each rank notifies the rank 2^k after it, and waits for the
  /// rank 2^k before it.
  dissemination,
  /// Each rank waits for its two children, notifies its parent, and waits for the parent's
  /// notification: 2 (n - 1) writes, 2 log2 n of them one after the other.
  binary_tree,
  /// All ranks notify the first one, which then notifies all: 2 (n - 1) writes, n - 1 by one rank.
  central,
};

/// Returns `dissemination`, `binary tree` or `central`.
[[nodiscard]] std::string to_string(barrier_algorithm of);

}  // namespace verbena::inline VERBENA_ABI::net
