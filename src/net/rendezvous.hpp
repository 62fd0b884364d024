// SPDX-License-Identifier: MIT
// Waits for the store of a group whose address is not known in advance.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
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

/// Returns true for the text of an IPv4 or IPv6 address.
[[nodiscard]] bool is_ip_address(std::string_view host);

/// Returns the IP addresses of a host name, at least one.
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

/// Calls `open` with `at`. If `at` has a host name, calls it with each IP address of the name until
/// one call succeeds or the address is in use: functions that listen resolve names without a time
/// limit. Errors: those of the lookup; that of the last call.
template <class Open>
[[nodiscard]] auto open_resolved(const bringup::address& at, deadline until, Open&& open)
    -> decltype(open(at)) {
  if (at.host.empty() || is_ip_address(at.host)) return open(at);
  VERBENA_TRY(const auto addresses, look_up_host(at, until));
  for (std::size_t next = 0;;) {
    auto opened = open(bringup::address{.host = addresses[next], .port = at.port});
    if (opened) return opened;
    if (++next == addresses.size() || opened.error().is(std::errc::address_in_use))
      return std::move(opened).error().with_diagnosis("it is an address of the host " + at.host);
  }
}

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
