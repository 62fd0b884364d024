// SPDX-License-Identifier: MIT
// Waits for the store of a group whose address is not known in advance.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

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

/// Returns the IP addresses of a host name.
using host_lookup =
    std::function<result<std::vector<std::string>>(const bringup::address& of, deadline until)>;
[[nodiscard]] result<std::vector<std::string>> look_up_host(const bringup::address& of,
                                                            deadline until);

/// Returns the address at which rank 0 opens a store that other ranks reach at `at`.
///
/// If the name of the host resolves to a loopback address, returns all addresses of the host: many
/// distributions resolve the own name to 127.0.1.1, and other hosts resolve it to another address.
/// IP addresses and the names of the loopback interface, such as localhost, are returned as they
/// are. Blocks while a name is resolved. Errors: those of the lookup.
[[nodiscard]] result<bringup::address> address_to_listen(const bringup::address& at, deadline until,
                                                         const host_lookup& look_up = look_up_host);

/// Opens the store on rank 0, at `place.store`. Sets the port of `place`. Errors: those of
/// address_to_listen() and store::open().
[[nodiscard]] result<void> meet_at_rank_0(membership& place, std::optional<store>& own,
                                          deadline until, const store_options& options);

/// On rank 0, opens the store at all addresses of the host. On other ranks, waits until the name of
/// that host can be resolved and the store accepts connections. Sets the store and the host of
/// `place`. Blocks.
///
/// Errors: those of store::open(); `timed_out` with the error of the last attempt.
[[nodiscard]] result<void> meet_by_service(membership& place, std::optional<store>& own,
                                           deadline until, const store_options& options);

}  // namespace verbena::inline VERBENA_ABI::net::detail
