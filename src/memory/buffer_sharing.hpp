// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Shares one buffer, which the device only reads, between several operations.
struct buffer_sharing {
  /// Returns `count` buffers with the memory of `of`. When the last of them is destroyed, it
  /// releases `of`. Allocates.
  [[nodiscard]] static std::vector<buffer> views(const std::shared_ptr<buffer>& of,
                                                 std::uint32_t count);
};

}  // namespace verbena::inline VERBENA_ABI::detail
