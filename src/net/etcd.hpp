// SPDX-License-Identifier: MIT
// Rendezvous through etcd: rank 0 publishes the address of the store, and the other ranks look it
// up. Uses the HTTP interface of etcd through libcurl.so.4, which is loaded at the first use.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "verbena/base/deadline.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/net/membership.hpp"
#include "verbena/net/store.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Keeps the address of a store in etcd while the object exists. A thread renews the lease. If the
/// process ends, etcd removes the address within 10 s.
class announcement;
void destroy(announcement& of) noexcept;

/// The server and the prefix of the keys, from `http://host:port/prefix`. Threads: immutable value.
struct etcd_place {
  std::string server;  ///< scheme, host and port
  std::string prefix;  ///< prefix of the keys; not empty
};

/// Parses the value of VERBENA_ETCD. Errors: `invalid_argument` with the value.
[[nodiscard]] result<etcd_place> parse_etcd(std::string_view text);

/// The store that rank 0 announces, and its secret. The secret is empty if the program has set one.
struct announced_store {
  bringup::address at;
  std::string secret;

  friend bool operator==(const announced_store&, const announced_store&) = default;
};

/// Converts to and from the value in etcd. parse_announced() returns `protocol` for an invalid
/// text.
/// @{
[[nodiscard]] std::string to_text(const announced_store& of);
[[nodiscard]] result<announced_store> parse_announced(std::string_view text);
/// @}

/// On rank 0, opens the store and announces it. On other ranks, waits for the announcement of a
/// store that accepts connections. Sets the address, the secret and the host of `place`. Blocks.
///
/// Errors: `timed_out` with the last reason; `not_supported` if the library was built without
/// libcurl; `unavailable` if libcurl.so.4 is not installed; `protocol` if an answer of etcd is
/// invalid.
[[nodiscard]] result<verbena::detail::sole_owner<announcement>> meet_by_etcd(
    membership& place, std::optional<store>& own, deadline until, const store_options& options);

}  // namespace verbena::inline VERBENA_ABI::net::detail
