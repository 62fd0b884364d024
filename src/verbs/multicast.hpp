// SPDX-License-Identifier: MIT
// Multicast groups by their GIDs.
#pragma once

#include "verbena/base/guid.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// True for the GID of a multicast group: ff00::/8, or an IPv4 address of class D (RoCE v2).
[[nodiscard]] bool is_multicast(const gid& address) noexcept;

}  // namespace verbena::inline VERBENA_ABI::detail
