// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "verbena/base/result.hpp"
#include "verbena/verbs/endpoint.hpp"

namespace verbena::tool {

/// Reads an endpoint from the hexadecimal digits of its wire format: the option --endpoint. Errors:
/// `invalid_argument` for other characters or an odd number; those of endpoint::decode().
[[nodiscard]] result<endpoint> read_peer_endpoint(std::string_view digits);

}  // namespace verbena::tool
