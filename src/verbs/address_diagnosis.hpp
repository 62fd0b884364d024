// SPDX-License-Identifier: MIT
// Likely causes of failures with the address of a peer.
#pragma once

#include <string>

#include "src/verbs/diagnosis.hpp"
#include "verbena/verbs/address_vector.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns why the kernel did not resolve the route; empty for addresses without a GID.
[[nodiscard]] std::string explain_route(int code, queried_device device, const address_vector& to);

/// Returns why a device refuses the address with EINVAL; empty if no cause is found. Queries the
/// port.
[[nodiscard]] std::string explain_address(queried_device device, const address_vector& to);

}  // namespace verbena::inline VERBENA_ABI::detail
