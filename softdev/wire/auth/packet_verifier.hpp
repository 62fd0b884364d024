// SPDX-License-Identifier: MIT
// Which received packets were sent by somebody with the key, and now.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "softdev/wire/auth/sequence_window.hpp"
#include "softdev/wire/auth/wire_key.hpp"

namespace verbena::softdev::wire {

/// What the trailer of a datagram says of it.
enum class authenticity : std::uint8_t {
  genuine,
  missing,     ///< there is no trailer
  failed,      ///< the tag is wrong: another key, other addresses, or damage
  replayed,    ///< the packet was received before, or is too old to know
  unexpected,  ///< there is a trailer, and this process has no key
};

/// Knows the senders of genuine packets. Threads: one thread at a time. Allocates for each new
/// sender of a genuine packet; libcrypto also does, for a moment, for a packet of an unknown
/// sender.
class packet_verifier {
 public:
  /// The senders that are known at a time. Beyond, the one whose last packet is the oldest is
  /// forgotten. About 1.5 KiB each.
  static constexpr std::size_t most_senders = 4096;

  /// Errors: those of gmac::open.
  [[nodiscard]] static result<std::unique_ptr<packet_verifier>> open(const wire_key& key);

  /// Checks a datagram, and remembers that it was received.
  [[nodiscard]] authenticity admit(const network_header& around,
                                   std::span<const std::byte> datagram) noexcept;
  /// As `admit`, for a datagram that is only passed on: remembers nothing, so the result is not
  /// `replayed`.
  [[nodiscard]] authenticity examine(const network_header& around,
                                     std::span<const std::byte> datagram) noexcept;
  [[nodiscard]] std::size_t senders() const noexcept { return senders_.size(); }

 private:
  struct sender {
    gmac by;
    sequence_window window;
    std::uint64_t last = 0;  ///< when its last packet came, in packets
  };

  packet_verifier(const wire_key& key, hmac_sha256 derivation, gmac spare) noexcept
      : key_(key), derivation_(std::move(derivation)), spare_(std::move(spare)) {}
  [[nodiscard]] bool has_tag(gmac& by, const network_header& around,
                             std::span<const std::byte> datagram) noexcept;
  [[nodiscard]] bool prepare_spare(std::uint64_t which) noexcept;
  [[nodiscard]] sender* add(std::uint64_t which) noexcept;
  void forget_oldest() noexcept;

  const wire_key key_;
  hmac_sha256 derivation_;
  std::optional<gmac> spare_;  ///< for the packets of unknown senders
  std::uint64_t admitted_ = 0;
  std::unordered_map<std::uint64_t, sender> senders_;
};

}  // namespace verbena::softdev::wire
