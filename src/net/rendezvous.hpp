// SPDX-License-Identifier: MIT
// Waits for the store of a group whose address is not known in advance.
#pragma once

#include <chrono>
#include <optional>

#include "src/net/retry_pauses.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/net/membership.hpp"
#include "verbena/net/store.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The pauses between attempts to reach a store.
inline constexpr retry_pauses::range pauses_for_store{.first = std::chrono::milliseconds(50),
                                                      .longest = std::chrono::seconds(1)};

/// Checks that a store exists: connects and closes the connection. Blocks for at most 3 s. Errors:
/// those of bringup::stream::connect().
[[nodiscard]] result<void> probe_store(const bringup::address& at, deadline until);

/// On rank 0, opens the store at all addresses of the host. On other ranks, waits until the name of
/// that host can be resolved and the store accepts connections. Sets the store and the host of
/// `place`. Blocks.
///
/// Errors: those of store::open(); `timed_out` with the error of the last attempt.
[[nodiscard]] result<void> meet_by_service(membership& place, std::optional<store>& own,
                                           deadline until, const store_options& options);

}  // namespace verbena::inline VERBENA_ABI::net::detail
