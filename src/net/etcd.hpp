// SPDX-License-Identifier: MIT
// etcd, which gives the address of the store of a group to all ranks. Its HTTP interface is used
// through libcurl.so.4, which is loaded at the first use.
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

/// The address of a store in etcd, for as long as the object exists. A thread renews its lease: if
/// the process ends, etcd removes the address after 10 s.
class announcement;
void destroy(announcement& of) noexcept;

/// The server and the prefix of the keys, from `http://host:port/prefix`. Threads: immutable value.
struct etcd_place {
  std::string server;  ///< http://host:port
  std::string prefix;  ///< of keys; not empty
};

/// Divides the value of VERBENA_ETCD. Errors: `invalid_argument` with the value.
[[nodiscard]] result<etcd_place> parse_etcd(std::string_view text);

/// The store that rank 0 announces, and its secret unless the program has set one.
struct announced_store {
  bringup::address at;
  std::string secret;

  friend bool operator==(const announced_store&, const announced_store&) = default;
};

/// The text in etcd.
/// @{
[[nodiscard]] std::string to_text(const announced_store& of);
[[nodiscard]] result<announced_store> parse_announced(std::string_view text);
/// @}

/// On rank 0, opens the store and announces it. On other ranks, waits for the announcement of a
/// store that answers. Completes `place`. Blocks.
///
/// Errors: `timed_out` with the last reason; `not_supported` if the library was built without
/// libcurl; `unavailable` if libcurl.so.4 is not installed; `protocol` if etcd sends other answers.
[[nodiscard]] result<verbena::detail::sole_owner<announcement>> meet_by_etcd(
    membership& place, std::optional<store>& own, deadline until, const store_options& options);

}  // namespace verbena::inline VERBENA_ABI::net::detail
