// SPDX-License-Identifier: MIT
// The packets by which two soft0 devices use selective repeat. They have vendor opcodes (IBTA 9.2),
// so other devices drop them without a response.
#pragma once

#include <array>
#include <cstddef>

#include "softdev/wire/engine/psn_set.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

/// The signature and 16 bytes of bits.
inline constexpr std::size_t selective_payload_bytes = 24;
using selective_payload = std::array<std::byte, selective_payload_bytes>;

/// Makes the packet by which a requester announces that it processes selective acknowledgements.
/// `expected`: the PSN that the responder expects. The payload of the packet refers to `payload`.
/// The caller sets P_Key and queue pair number.
[[nodiscard]] packet make_selective_offer(std::uint32_t expected,
                                          selective_payload& payload) noexcept;
/// Makes the packet by which a responder acknowledges all packets before `received.first`, reports
/// that packet `received.first` is missing, and lists the later packets that it has.
[[nodiscard]] packet make_selective_acknowledgement(const psn_set& received,
                                                    selective_payload& payload) noexcept;

[[nodiscard]] bool is_selective_offer(const packet& what) noexcept;
[[nodiscard]] bool is_selective_acknowledgement(const packet& what) noexcept;
/// Does not contain the missing packet. Precondition: is_selective_acknowledgement(what).
[[nodiscard]] psn_set received_packets(const packet& what) noexcept;

}  // namespace verbena::softdev::wire
