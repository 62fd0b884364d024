// SPDX-License-Identifier: MIT
// The names and addresses of this host.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// Returns the name of this host, also without its domain, and the addresses of its network
/// interfaces. Link-local addresses are in the set with their scope ("fe80::1%eth0") and without
/// it. Does not resolve names. Errors: those of getifaddrs(3).
[[nodiscard]] result<std::set<std::string>> own_names();

/// Returns the addresses of the network interfaces that are up, in the order of the interfaces.
/// Errors: those of getifaddrs(3).
[[nodiscard]] result<std::vector<std::string>> interface_addresses();

/// Returns whether a numeric address is one of this host only. Does not recognize names.
[[nodiscard]] bool is_loopback(std::string_view address);

/// Returns the usual text of an IPv6 address, with the name of its scope if it has one, and any
/// other host as it is.
[[nodiscard]] std::string usual_text(const std::string& host);

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
