// SPDX-License-Identifier: MIT
// The data of a send request that only some transports have. They begin with a
// datagram_destination.
#pragma once

#include <cstddef>
#include <new>

#include "softdev/core/datagram.hpp"
#include "softdev/core/transport/delivery.hpp"
#include "softdev/core/transport/rules.hpp"

namespace verbena::softdev {

/// Returns the bytes of these data for each request.
[[nodiscard]] constexpr std::size_t request_extra_bytes(transport kind) noexcept {
  const transport_rules& rules = rules_of(kind);
  if (rules.mode == delivery_mode::parts) return sizeof(delivery);
  return rules.connected ? 0 : sizeof(datagram_destination);
}

/// Creates these data in `room` for a new request.
inline void begin_request_extra(transport kind, std::byte* room) noexcept {
  const transport_rules& rules = rules_of(kind);
  if (rules.connected) return;
  if (rules.mode == delivery_mode::parts)
    ::new (room) delivery;
  else
    ::new (room) datagram_destination;
}

}  // namespace verbena::softdev
