// SPDX-License-Identifier: MIT
// How messages call identifiers, and the addresses inside them.
#pragma once

#include <rdma/rdma_cma.h>

#include <optional>
#include <string>

#include "verbena/cm/socket_address.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// `connection 10.0.0.1:40000 -> 10.0.0.2:7471`, `identifier at 10.0.0.1:7471`, or by its port
/// space.
[[nodiscard]] std::string name_of(const rdma_cm_id& id);

/// An address inside an identifier; nothing while it is not known.
[[nodiscard]] std::optional<socket_address> known_address(const sockaddr& inside);

}  // namespace verbena::inline VERBENA_ABI::cm::detail
