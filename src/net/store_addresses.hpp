// SPDX-License-Identifier: MIT
// The addresses of a store that rank 0 opens at all addresses of its host. Rank 0 does not know
// which of them other hosts reach, so it publishes all of them, and each rank finds one that
// answers.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The store that rank 0 publishes. The secret is empty if the program has set one. Threads:
/// immutable value.
struct published_store {
  std::vector<bringup::address> at;
  std::string secret;

  friend bool operator==(const published_store&, const published_store&) = default;
};

/// Converts to and from a text. parse_published() returns `protocol` for an invalid text.
/// @{
[[nodiscard]] std::string to_text(const published_store& of);
[[nodiscard]] result<published_store> parse_published(std::string_view text);
/// @}

/// The maximum number of addresses that are published.
inline constexpr std::size_t max_published_addresses = 16;

/// Returns the addresses that hosts can use to reach each other: IPv4 before IPv6, each once, at
/// most max_published_addresses. Loopback and link-local IPv6 addresses are left out.
[[nodiscard]] std::vector<std::string> addresses_for_hosts(const std::vector<std::string>& all);
/// Returns addresses_for_hosts() of the network interfaces of this host that are up. Errors: those
/// of getifaddrs(3).
[[nodiscard]] result<std::vector<std::string>> addresses_for_hosts();

/// Moves the addresses in `own`, those of this host, to the end: on another host than that of the
/// store, they are addresses that both hosts have, for example of a bridge of containers.
void put_own_last(std::vector<bringup::address>& of, const std::set<std::string>& own);

/// Returns the first address at which a store answers, as an IP address.
///
/// Tries the addresses in their order. If an address does not answer within `patience`, tries the
/// next one at the same time. Blocks.
///
/// Errors, with each address and why it failed: `timed_out` if an attempt has not ended at
/// `until`; otherwise the errno of the first failure.
[[nodiscard]] result<bringup::address> find_reachable(
    const std::vector<bringup::address>& at, deadline until,
    std::chrono::nanoseconds patience = std::chrono::milliseconds(250));

}  // namespace verbena::inline VERBENA_ABI::net::detail
