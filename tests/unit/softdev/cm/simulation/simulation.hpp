// SPDX-License-Identifier: MIT
// Simulates the connection managers of two hosts, programs that connect, and a network with faults.
// One seed determines everything except the values of communication IDs and port numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "softdev/cm/mad.hpp"
#include "softdev/cm/manager_options.hpp"

namespace verbena::softdev::cm::simulation {

/// The result of a seed.
struct outcome {
  std::string violation;  ///< empty if the oracle found no violation
  std::string setting;    ///< the parameters chosen by the seed, as text
  std::uint64_t attempts = 0;
  std::uint64_t established = 0;
  std::uint64_t messages = 0;
  std::uint64_t faults = 0;
};

/// Called with the virtual time for each message that a host sends.
using message_observer = std::function<void(time_point, std::size_t host, const mad&)>;

/// Runs a seed in virtual time. Two runs of a seed differ only in communication IDs and ports.
[[nodiscard]] outcome run_seed(std::uint64_t seed, const message_observer& observer = {});

}  // namespace verbena::softdev::cm::simulation
