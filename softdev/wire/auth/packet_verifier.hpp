// SPDX-License-Identifier: MIT
// Checks that a received packet was sent by a process with the key, and is not a replay.
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

/// The result of checking a datagram.
enum class authenticity : std::uint8_t {
  genuine,
  missing,     ///< the datagram has no trailer
  failed,      ///< the tag is wrong: another key, other addresses, or damage
  replayed,    ///< the packet was received before, or is older than the window
  unexpected,  ///< the datagram has a trailer, and this process has no key
};

/// Checks datagrams, and keeps the sequence numbers of their senders. Threads: one thread at a
/// time. Allocates for each new sender of a genuine packet. libcrypto also allocates temporarily
/// for each packet of an unknown sender.
class packet_verifier {
 public:
  /// The maximum number of known senders. A further sender replaces the one whose last packet is
  /// the oldest. A sender takes about 1.5 KiB.
  static constexpr std::size_t most_senders = 4096;

  /// Errors: those of gmac::open.
  [[nodiscard]] static result<std::unique_ptr<packet_verifier>> open(const wire_key& key);

  /// Checks a datagram, and remembers that it was received.
  [[nodiscard]] authenticity admit(const network_header& around,
                                   std::span<const std::byte> datagram) noexcept;
  /// Checks a datagram that is only forwarded. Remembers nothing, so the result is never
  /// `replayed`.
  [[nodiscard]] authenticity examine(const network_header& around,
                                     std::span<const std::byte> datagram) noexcept;
  [[nodiscard]] std::size_t senders() const noexcept { return senders_.size(); }

 private:
  struct sender {
    gmac by;
    sequence_window window;
    std::uint64_t last = 0;  ///< the value of admitted_ after its last packet
  };

  packet_verifier(const wire_key& key, hmac_sha256 derivation, gmac spare) noexcept
      : key_(key), derivation_(std::move(derivation)), spare_(std::move(spare)) {}
  /// A datagram with the right tag, if `what` is genuine.
  struct compared {
    authenticity what = authenticity::missing;
    packet_trailer trailer;
    sender* from = nullptr;  ///< nullptr: unknown; the spare MAC has its key
  };

  [[nodiscard]] compared compare(const network_header& around,
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
