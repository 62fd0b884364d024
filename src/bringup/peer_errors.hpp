// SPDX-License-Identifier: MIT
// The errors that a peer causes by what it sends, or does not send.
#pragma once

#include <string>
#include <string_view>

#include "verbena/base/error.hpp"
#include "verbena/bringup/frame.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// The peer closed the connection.
[[nodiscard]] error closed_by(const std::string& peer);
/// The deadline passed while bytes of the peer were missing.
[[nodiscard]] error silent(std::string_view call, const std::string& peer, bool in_a_frame);
/// A frame of another type than the protocol demands.
[[nodiscard]] error unexpected_frame(std::string_view call, const std::string& peer, frame_type got,
                                     frame_type due);
/// A refusal of the peer.
[[nodiscard]] error refused_by(std::string_view call, const std::string& peer,
                               std::span<const std::byte> reason);
/// `what` with the name of the peer as its object.
[[nodiscard]] error about(const error& what, const std::string& peer);

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
