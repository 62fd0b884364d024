// SPDX-License-Identifier: MIT
// Two hosts, some connections, random traffic and a network with faults, all from one seed.
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
  std::string violation;  ///< empty if the oracle found none
  std::string setting;    ///< the parameters that the seed chose, in words
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;
  std::uint64_t packets = 0;
  std::uint64_t faults = 0;
};

/// Sees each packet that a host sends, with the time.
using packet_observer = std::function<void(time_ns, std::size_t host, const packet&)>;

/// Runs a seed in virtual time. Two runs of a seed are identical.
[[nodiscard]] outcome run_seed(std::uint64_t seed, const packet_observer& observer = {});

}  // namespace verbena::softdev::wire::simulation
