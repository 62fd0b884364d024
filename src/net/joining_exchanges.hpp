// SPDX-License-Identifier: MIT
// The exchanges of group::join(). The group has formed after the last one.
#pragma once

#include <string_view>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

// With connect_mode::at_join:
inline constexpr std::string_view endpoints_exchange = "verbena: endpoints";
inline constexpr std::string_view ready_exchange = "verbena: ready";
// With connect_mode::on_first_use; the first one only if PMIx has found the store:
inline constexpr std::string_view hosts_exchange = "verbena: hosts of the store";
inline constexpr std::string_view contacts_exchange = "verbena: contacts";

/// Returns true for an exchange after which join() needs another one.
[[nodiscard]] constexpr bool is_before_last_of_join(std::string_view exchange) noexcept {
  return exchange == endpoints_exchange || exchange == hosts_exchange;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
