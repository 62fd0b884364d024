// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/base/ids.hpp"
#include "verbena/verbs/send_operations.hpp"

namespace verbena::inline VERBENA_ABI {

/// Selects send requests of this process for an injected fault. By default selects all.
///
/// Requests are counted per queue pair, from the injection on, when they start. At most one of
/// `at`, `every` and `probability` may be set. Threads: immutable value.
struct request_selection {
  std::optional<queue_pair_number> queue_pair;  ///< only requests of this queue pair
  std::uint32_t queue_pair_index = 0;  ///< only those of the n-th queue pair of the process, from 1
  send_operations operations = {};     ///< only these operations; empty: all
  std::uint64_t at = 0;                ///< the n-th request, from 1
  std::uint64_t every = 0;             ///< each n-th request
  double probability = 0;              ///< each request with this probability, above 0, at most 1
  std::uint64_t seed = 0;              ///< for `probability`; 0: the seed of the process, logged
  std::uint64_t count = 0;             ///< maximum number of faults per queue pair; 0: no limit
};

}  // namespace verbena::inline VERBENA_ABI
