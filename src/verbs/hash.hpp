// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Hashes the wire format of a value.
[[nodiscard]] inline std::size_t hash_of(std::span<const std::byte> bytes) noexcept {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace verbena::inline VERBENA_ABI::detail
