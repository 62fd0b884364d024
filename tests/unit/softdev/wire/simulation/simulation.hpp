// SPDX-License-Identifier: MIT
// Two hosts, some connections, random traffic and a network with faults, all from one seed.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::softdev::wire::simulation {

/// The result of a seed.
struct outcome {
  std::string violation;  ///< empty if the oracle found none
  std::string setting;    ///< the parameters that the seed chose, in words
  std::uint64_t requests = 0;
  std::uint64_t packets = 0;
  std::uint64_t faults = 0;
};

/// Runs a seed in virtual time. Two runs of a seed are identical.
[[nodiscard]] outcome run_seed(std::uint64_t seed);

}  // namespace verbena::softdev::wire::simulation
