// SPDX-License-Identifier: MIT
#pragma once

#include "verbena/channel/channel.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Gives this module the core of a channel, for operations of several channels at once.
struct channel_access {
  [[nodiscard]] static verbena::detail::channel_core& core_of(channel& of) { return of.core(); }
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
