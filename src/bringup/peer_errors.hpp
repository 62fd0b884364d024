// SPDX-License-Identifier: MIT
// Errors that the peer causes.
#pragma once

#include <string>
#include <string_view>

#include "verbena/base/error.hpp"
#include "verbena/bringup/frame.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {

/// Returns the error if the peer closed the connection.
[[nodiscard]] error closed_by(const std::string& peer);
/// Returns the error if the deadline passed before the peer sent all bytes.
[[nodiscard]] error silent(std::string_view call, const std::string& peer, bool in_a_frame);
/// Returns the error for a frame of type `got` when the protocol requires type `due`.
[[nodiscard]] error unexpected_frame(std::string_view call, const std::string& peer, frame_type got,
                                     frame_type due);
/// The diagnosis of refused_by() is this text and the reason of the peer.
inline constexpr std::string_view refusal_prefix = "the peer rejected the connection: ";
/// Returns the error after the peer sent a refusal.
[[nodiscard]] error refused_by(std::string_view call, const std::string& peer,
                               std::span<const std::byte> reason);
/// Returns `what` with the name of the peer as its object.
[[nodiscard]] error about(const error& what, const std::string& peer);

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
