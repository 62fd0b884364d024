// SPDX-License-Identifier: MIT
// Simulates two hosts, several connections, random traffic and a network with faults. One seed
// determines everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "softdev/core/types.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire::simulation {

/// The result of a seed.
struct outcome {
  std::string violation;  ///< empty if the oracle found no violation
  std::string setting;    ///< the parameters chosen by the seed, as text
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;
  std::uint64_t packets = 0;
  std::uint64_t postponed = 0;  ///< how often a host postponed ACKs
  std::uint64_t faults = 0;
  std::uint64_t grants = 0;  ///< larger windows
};

/// Called with the time for each packet that a host sends.
using packet_observer = std::function<void(time_ns, std::size_t host, const packet&)>;

/// Runs a seed in virtual time. Two runs of a seed are identical.
[[nodiscard]] outcome run_seed(std::uint64_t seed, const packet_observer& observer = {});

}  // namespace verbena::softdev::wire::simulation
