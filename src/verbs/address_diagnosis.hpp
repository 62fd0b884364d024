// SPDX-License-Identifier: MIT
// What may be wrong with the way to a peer, in words.
#pragma once

#include <string>

#include "src/verbs/diagnosis.hpp"
#include "verbena/verbs/address_vector.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Why the kernel could not resolve it; empty for addresses without a GID.
[[nodiscard]] std::string explain_route(int code, asked_device device, const address_vector& to);

/// Why a device refuses it as invalid; empty if nothing is found. Asks the device about its port.
[[nodiscard]] std::string explain_address(asked_device device, const address_vector& to);

}  // namespace verbena::inline VERBENA_ABI::detail
