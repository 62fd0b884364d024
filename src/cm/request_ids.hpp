// SPDX-License-Identifier: MIT
// The ids of requests that a session makes by itself.
#pragma once

#include <cstdint>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// Of all of them; the lower half is the place of the message.
inline constexpr std::uint64_t library_mark = std::uint64_t{1} << 63;
/// Of the first message on iWARP.
inline constexpr std::uint64_t greeting_mark = library_mark | std::uint64_t{1} << 62;

/// The place that the id of a message has.
[[nodiscard]] constexpr std::uint32_t slot_of(std::uint64_t id) noexcept {
  return static_cast<std::uint32_t>(id);
}

}  // namespace verbena::inline VERBENA_ABI::cm::detail
