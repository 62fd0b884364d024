// SPDX-License-Identifier: MIT
// Faults of a network that a user asks for: packets that are lost, repeated, overtaken, damaged or
// late. Pure: the decisions depend on the seed and the order of the packets only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "softdev/core/types.hpp"

namespace verbena::softdev::wire {

/// The content of VERBENA_SOFTDEV_WIRE_FAULTS. Rates are parts per million of the packets that a
/// process receives.
struct fault_rates {
  std::uint32_t loss = 0;
  std::uint32_t duplicate = 0;
  std::uint32_t reorder = 0;  ///< packets that come later than those behind them
  std::uint32_t corrupt = 0;  ///< packets with one wrong bit
  std::uint32_t mark = 0;     ///< packets with the mark of congestion (CE)
  time_ns delay = 0;          ///< of each packet
  std::uint64_t seed = 1;

  /// Returns whether a packet can be changed or delayed.
  [[nodiscard]] bool any() const noexcept {
    return loss != 0 || duplicate != 0 || reorder != 0 || corrupt != 0 || mark != 0 || delay != 0;
  }
  bool operator==(const fault_rates&) const = default;
};

/// Reads `loss=1%,duplicate=0.1%,reorder=2%,corrupt=0.5%,mark=1%,delay=2ms,seed=7`; each part may
/// be missing. If a part is wrong, returns nullopt, and `wrong` says which and what it must be.
[[nodiscard]] std::optional<fault_rates> parse_faults(std::string_view text, std::string& wrong);

/// Chooses the faults of packets. Threads: one thread at a time.
class packet_faults {
 public:
  explicit packet_faults(const fault_rates& rates) noexcept
      : rates_(rates), state_(rates.seed), marks_(~rates.seed) {}

  /// What happens to a packet. A lost one has no other fault.
  struct decision {
    bool lost = false;
    bool duplicated = false;
    bool corrupted = false;
    bool marked = false;
    std::uint64_t bit = 0;  ///< of a corrupted packet: its wrong bit, modulo the number of its bits
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
  std::uint64_t marks_;  ///< a state of its own: marks change no other fault
};

}  // namespace verbena::softdev::wire
