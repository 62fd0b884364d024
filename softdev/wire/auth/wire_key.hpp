// SPDX-License-Identifier: MIT
// The secret that hosts share, and the keys that are derived from it (HKDF, RFC 5869, with
// SHA-256).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/wire/auth/crypto.hpp"
#include "softdev/wire/network.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev::wire {

/// A key from which those of senders are derived. Threads: immutable.
class wire_key {
 public:
  /// Errors: those of hmac_sha256::open.
  [[nodiscard]] static result<wire_key> derive(std::span<const std::byte> secret);

  /// Derives the key of a sender. Returns false if libcrypto failed.
  [[nodiscard]] bool derive_sender(hmac_sha256& by, std::uint64_t sender,
                                   mac_key& out) const noexcept;
  /// Returns a number that is equal for equal secrets, and not 0. Processes of one user may know
  /// it.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }

 private:
  wire_key() noexcept = default;

  mac_key root_{};
  std::uint64_t fingerprint_ = 0;
};

/// Computes the tag of a datagram with a trailer. The bytes of the tag are not covered. Returns
/// false if libcrypto failed.
[[nodiscard]] bool compute_tag(gmac& by, const network_header& around,
                               std::span<const std::byte> datagram, packet_tag& out) noexcept;

}  // namespace verbena::softdev::wire
