// SPDX-License-Identifier: MIT
// Ids of the work requests that a session posts for itself.
#pragma once

#include <cstdint>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// The bit that marks these ids. Their low 32 bits are the slot of the message.
inline constexpr std::uint64_t library_mark = std::uint64_t{1} << 63;
/// The bits that mark the first message on iWARP.
inline constexpr std::uint64_t greeting_mark = library_mark | std::uint64_t{1} << 62;

/// Returns the slot of a message.
[[nodiscard]] constexpr std::uint32_t slot_of(std::uint64_t id) noexcept {
  return static_cast<std::uint32_t>(id);
}

}  // namespace verbena::inline VERBENA_ABI::cm::detail
