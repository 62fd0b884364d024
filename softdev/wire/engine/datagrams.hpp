// SPDX-License-Identifier: MIT
// Datagrams (UD) as packets: each is one packet, and nobody answers. There is no state.
#pragma once

#include <span>

#include "softdev/core/message.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

/// Puts the packet of a SEND over UD. Returns `done`, or that the memory is not accessible.
/// `local` begins with a route header (datagram_address::write). Preconditions: `out` has room; the
/// payload has at most largest_mtu bytes.
[[nodiscard]] response put_datagram(const message& what, std::span<const segment> local,
                                    packet_output& out) noexcept;

/// Gives a packet to a queue pair of UD, which drops it if one of the checks of a responder fails.
/// Its memory gets the payload only if all of them succeed. `from` has the network headers of the
/// packet. Wants the receive lock held, and an access epoch.
void take_datagram(queue_pair& to, const packet& what, const network_header& from) noexcept;

}  // namespace verbena::softdev::wire
