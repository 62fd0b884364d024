// SPDX-License-Identifier: MIT
// HMAC-SHA-256 (RFC 2104, FIPS 180-4), with which ranks and stores prove that they have the secret.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

using digest = std::array<std::byte, 32>;

[[nodiscard]] digest sha256(std::span<const std::byte> message);
[[nodiscard]] digest hmac_sha256(std::span<const std::byte> key,
                                 std::span<const std::byte> message);
/// Compares in constant time.
[[nodiscard]] bool are_equal(const digest& a, const digest& b) noexcept;

}  // namespace verbena::inline VERBENA_ABI::net::detail
