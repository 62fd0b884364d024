// SPDX-License-Identifier: MIT
// Messages of other hosts that belong to no exchange: the process to which they go, and the answers
// without an exchange.
#pragma once

#include <cstdint>
#include <optional>

#include "softdev/cm/address.hpp"
#include "softdev/cm/mad.hpp"
#include "softdev/cm/mad_carrier.hpp"

namespace verbena::softdev::cm {

/// The bits of a communication ID below the queue pair number that identifies its process.
inline constexpr unsigned low_bits_of_communication_id = 8;

/// Returns the slot of the process that has chosen this communication ID.
[[nodiscard]] std::uint32_t slot_of_communication_id(std::uint32_t id) noexcept;

/// Passes the request of another host to the process of this user that listens, in one frame. Does
/// not wait for that process. Returns 0; ECONNREFUSED if no process listens; EAGAIN if that process
/// has too many pending requests; the errno of another failure.
[[nodiscard]] int pass_to_listener(const address& own, const address& peer,
                                   const mad& request) noexcept;
/// Rejects the request of another host; `reason` is a reject_reason.
void reject_request(mad_carrier& by, const address& own, const address& peer, const mad& request,
                    std::uint32_t reason) noexcept;
/// Returns the answer to a message with an unknown communication ID; `nullopt` if the message needs
/// no answer.
[[nodiscard]] std::optional<mad> answer_to_unknown(const mad& message) noexcept;

}  // namespace verbena::softdev::cm
