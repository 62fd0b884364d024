// SPDX-License-Identifier: MIT
// Asks devices, through the public library, and puts the answers into a document.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/verbena/devinfo/document.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device.hpp"
#include "verbena/verbs/device_attributes.hpp"

namespace verbena::tool {

/// All about one device. `port` limits it to one port. Errors: those of the verbs;
/// `invalid_argument` if there is no such port.
[[nodiscard]] result<section> describe_device(const device& which,
                                              std::optional<std::uint32_t> port);

/// One port with its GID and P_Key tables.
[[nodiscard]] result<section> describe_port(const context& opened, port_number port);

/// The limits of ibv_query_device(3).
[[nodiscard]] section describe_limits(const device_attributes& attributes);
/// What ibv_query_device_ex(3) adds to them.
void append_capabilities(section& to, const extended_device_attributes& attributes);

}  // namespace verbena::tool
