// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Consecutive messages. Threads: immutable value.
struct message_range {
  std::uint64_t first = 0;  ///< number of the first message
  std::uint64_t count = 0;  ///< number of messages

  friend bool operator==(message_range, message_range) noexcept = default;
};

}  // namespace verbena::inline VERBENA_ABI
