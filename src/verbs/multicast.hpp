// SPDX-License-Identifier: MIT
// GIDs of multicast groups.
#pragma once

#include "verbena/base/guid.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns whether the GID is that of a multicast group: ff00::/8, or an IPv4 address of class D
/// (RoCE v2).
[[nodiscard]] bool is_multicast(const gid& address) noexcept;

}  // namespace verbena::inline VERBENA_ABI::detail
