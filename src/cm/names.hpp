// SPDX-License-Identifier: MIT
// The names of identifiers in messages, and their addresses.
#pragma once

#include <rdma/rdma_cma.h>

#include <optional>
#include <string>

#include "verbena/cm/socket_address.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// Returns `connection 10.0.0.1:40000 -> 10.0.0.2:7471 on mlx5_0`, `identifier at 10.0.0.1:7471`,
/// or the port space.
[[nodiscard]] std::string name_of(const rdma_cm_id& id);

/// Returns an address of an identifier; `nullopt` if it is not known yet.
[[nodiscard]] std::optional<socket_address> known_address(const sockaddr& inside);

}  // namespace verbena::inline VERBENA_ABI::cm::detail
