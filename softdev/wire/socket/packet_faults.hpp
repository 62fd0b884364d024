// SPDX-License-Identifier: MIT
// Injected network faults: loss, duplication, reordering, damage, congestion marks and delay. The
// decisions depend only on the seed and the order of the packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "softdev/core/types.hpp"

namespace verbena::softdev::wire {

/// The value of VERBENA_SOFTDEV_WIRE_FAULTS. Rates are in parts per million of the packets that a
/// process receives.
struct fault_rates {
  std::uint32_t loss = 0;
  std::uint32_t duplicate = 0;
  std::uint32_t reorder = 0;  ///< packets that later packets overtake
  std::uint32_t corrupt = 0;  ///< packets with one inverted bit
  std::uint32_t mark = 0;     ///< packets with a congestion mark (CE)
  time_ns delay = 0;          ///< of each packet
  std::uint64_t seed = 1;

  /// Returns whether any fault is configured.
  [[nodiscard]] bool any() const noexcept {
    return loss != 0 || duplicate != 0 || reorder != 0 || corrupt != 0 || mark != 0 || delay != 0;
  }
  bool operator==(const fault_rates&) const = default;
};

/// Parses `loss=1%,duplicate=0.1%,reorder=2%,corrupt=0.5%,mark=1%,delay=2ms,seed=7`. Each part is
/// optional. If a part is invalid, returns nullopt and sets `wrong` to the part and its valid
/// values.
[[nodiscard]] std::optional<fault_rates> parse_faults(std::string_view text, std::string& wrong);

/// Selects the faults of packets. Threads: one thread at a time.
class packet_faults {
 public:
  explicit packet_faults(const fault_rates& rates) noexcept
      : rates_(rates), state_(rates.seed), marks_(~rates.seed) {}

  /// The faults of a packet. A lost packet has no other fault.
  struct decision {
    bool lost = false;
    bool duplicated = false;
    bool corrupted = false;
    bool marked = false;
    std::uint64_t bit = 0;  ///< the inverted bit, modulo the number of bits
    time_ns delay = 0;

    bool operator==(const decision&) const = default;
  };
  /// Returns the faults of the next packet.
  [[nodiscard]] decision next() noexcept;

 private:
  [[nodiscard]] static std::uint64_t draw(std::uint64_t& state) noexcept;
  [[nodiscard]] bool happens(std::uint32_t rate) noexcept;

  const fault_rates rates_;
  std::uint64_t state_;
  std::uint64_t marks_;  ///< a separate state, so that marks do not change other faults
};

}  // namespace verbena::softdev::wire
