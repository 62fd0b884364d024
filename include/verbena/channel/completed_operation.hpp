// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "verbena/channel/operation_result.hpp"

namespace verbena::inline VERBENA_ABI {

/// An operation that has ended, from completion_hub::next_completed(). Threads: immutable value.
struct completed_operation {
  std::uint64_t tag = 0;    ///< the number that the program gave to the operation
  operation_result result;  ///< how it ended
};

}  // namespace verbena::inline VERBENA_ABI
