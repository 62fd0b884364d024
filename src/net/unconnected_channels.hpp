// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "verbena/net/multi_channel.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Creates `count` channels without queue pairs on a new hub. Errors: those of
/// prepared_multi_channel::create(), except errors of queue pairs.
[[nodiscard]] result<multi_channel> create_unconnected(const protection_domain& domain,
                                                       std::uint32_t count,
                                                       const channel_options& options,
                                                       const completion_hub_options& hub);

}  // namespace verbena::inline VERBENA_ABI::net::detail
