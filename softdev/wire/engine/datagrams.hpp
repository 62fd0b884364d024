// SPDX-License-Identifier: MIT
// Datagrams (UD) as packets. Each datagram is one packet, and there are no acknowledgements. The
// functions have no state.
#pragma once

#include <span>

#include "softdev/core/message.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

/// Sends the packet of a SEND over UD. If the memory is not accessible, returns an error verdict,
/// else `done`. `local` begins with a route header (datagram_address::write). Preconditions: `out`
/// has room; the payload has at most largest_mtu bytes.
[[nodiscard]] response put_datagram(const message& what, std::span<const segment> local,
                                    packet_output& out) noexcept;

/// Delivers a packet to a UD queue pair. The queue pair drops the packet if a check of its
/// responder fails, and writes to memory only if all of these checks succeed. `from` has the
/// network headers of the packet. Preconditions: the caller holds the receive lock and is in an
/// access epoch.
void take_datagram(queue_pair& to, const packet& what, const network_header& from) noexcept;

}  // namespace verbena::softdev::wire
