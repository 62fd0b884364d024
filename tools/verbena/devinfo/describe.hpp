// SPDX-License-Identifier: MIT
// Queries devices through the public library and stores the results in a document.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/verbena/devinfo/document.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device.hpp"
#include "verbena/verbs/device_attributes.hpp"

namespace verbena::tool {

/// Describes one device, or only its port `port`. Errors: those of the verbs; `invalid_argument` if
/// the port does not exist.
[[nodiscard]] result<section> describe_device(const device& which,
                                              std::optional<std::uint32_t> port);

/// Describes a port with its GID and P_Key tables.
[[nodiscard]] result<section> describe_port(const context& opened, port_number port);

/// Describes the limits of ibv_query_device(3).
[[nodiscard]] section describe_limits(const device_attributes& attributes);
/// Describes the additional attributes of ibv_query_device_ex(3).
void append_capabilities(section& to, const extended_device_attributes& attributes);

}  // namespace verbena::tool
