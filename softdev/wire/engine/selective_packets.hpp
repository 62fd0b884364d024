// SPDX-License-Identifier: MIT
// The packets by which two soft0 devices use selective repeat and larger windows. They have vendor
// opcodes (IBTA 9.2), so other devices drop them without a response. Version 2 of the packets is
// for larger windows; devices that only know version 1 drop these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "softdev/wire/engine/psn_set.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

/// The PSNs from the expected one on that a responder without larger windows keeps and reports.
inline constexpr std::uint32_t base_reach = 128;

/// The signature and the bits of a psn_set.
inline constexpr std::size_t selective_payload_bytes = 8 + psn_set::capacity / 8;
using selective_payload = std::array<std::byte, selective_payload_bytes>;

/// Makes the packet by which a requester announces that it processes selective acknowledgements.
/// `expected`: the PSN that the responder expects. The payload of the packet refers to `payload`.
/// The caller sets P_Key and queue pair number.
[[nodiscard]] packet make_selective_offer(std::uint32_t expected,
                                          selective_payload& payload) noexcept;
/// Makes the packet by which a responder acknowledges all packets before `received.first`, reports
/// that packet `received.first` is missing, and lists the later packets that it has. `reach`: the
/// PSNs that the responder keeps; if more than base_reach, the packet has version 2.
[[nodiscard]] packet make_selective_acknowledgement(const psn_set& received, std::uint32_t reach,
                                                    selective_payload& payload) noexcept;
/// Makes the packet by which a requester asks for a larger window. It processes selective
/// acknowledgements of version 2. `expected`: as for make_selective_offer.
[[nodiscard]] packet make_window_offer(std::uint32_t expected, selective_payload& payload) noexcept;
/// Makes the answer to it: from now on, the responder keeps and reports `reach` PSNs.
[[nodiscard]] packet make_window_grant(std::uint32_t expected, std::uint32_t reach,
                                       selective_payload& payload) noexcept;

[[nodiscard]] bool is_selective_offer(const packet& what) noexcept;
[[nodiscard]] bool is_selective_acknowledgement(const packet& what) noexcept;
[[nodiscard]] bool is_window_offer(const packet& what) noexcept;
[[nodiscard]] bool is_window_grant(const packet& what) noexcept;
/// Does not contain the missing packet. Precondition: is_selective_acknowledgement(what).
[[nodiscard]] psn_set received_packets(const packet& what) noexcept;
/// Returns the number of PSNs. Precondition: is_window_grant(what).
[[nodiscard]] std::uint32_t granted_reach(const packet& what) noexcept;

}  // namespace verbena::softdev::wire
