// SPDX-License-Identifier: MIT
// The names and meanings of completion statuses. They are in base because error codes need them.
#pragma once

#include <cstdint>
#include <string_view>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Describes a completion status.
struct completion_text {
  std::string_view name;     ///< as in verbs.h without `IBV_WC_`
  std::string_view meaning;  ///< in words
};

/// Returns the text of an ibv_wc_status, or nullptr if the status is unknown.
[[nodiscard]] const completion_text* find_completion_text(std::uint32_t status) noexcept;

}  // namespace verbena::inline VERBENA_ABI::detail
