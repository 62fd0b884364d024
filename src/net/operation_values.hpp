// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "verbena/net/barrier_algorithm.hpp"
#include "verbena/net/reduction.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The function of an operation. The numbers are on the boards.
enum class operation_code : std::uint32_t {
  barrier = 1,
  broadcast = 2,
  all_gather = 3,
  reduce = 4,
  all_reduce = 5,
  all_to_all = 6,
};

/// The arguments of an operation that must be equal on all its ranks, besides the list of ranks.
/// Threads: immutable value.
struct operation_values {
  operation_code code;
  std::uint64_t bytes = 0;
  std::uint32_t root = 0;  ///< the algorithm of a barrier, or the rank of the root
  std::uint32_t element_bytes = 1;
  element_kind element = element_kind::other;
  operator_kind operation = operator_kind::other;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
