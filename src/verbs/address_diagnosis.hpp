// SPDX-License-Identifier: MIT
// What may be wrong with the way to a peer, in words.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "verbena/sys/verbs_table.hpp"
#include "verbena/verbs/address_vector.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Why the kernel could not resolve it; empty for addresses without a GID.
[[nodiscard]] std::string explain_route(const address_vector& to);

/// Why a device refuses it as invalid; empty if nothing is found. Asks the device about its port.
[[nodiscard]] std::string explain_address(const sys::verbs_table& verbs, ibv_context* context,
                                          const address_vector& to);

}  // namespace verbena::inline VERBENA_ABI::detail
