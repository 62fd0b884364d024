// SPDX-License-Identifier: MIT
// A fixed scenario of the device, whose every allocation and system call can be made to fail. It
// uses the C interface and allocates nothing itself.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::softdev::testing {

/// The queue pair and the memory of the process to which the scenario connects; in memory that both
/// share.
struct meeting_place {
  std::atomic<std::uint32_t> asked{0};     ///< queue pairs that the scenario asked to connect
  std::atomic<std::uint32_t> answered{0};  ///< queue pairs that the peer has connected
  std::uint32_t own_qpn = 0;               ///< of the scenario
  std::uint32_t peer_qpn = 0;
  std::uint64_t peer_address = 0;
  std::uint32_t peer_key = 0;
};

enum class scenario_result : std::uint8_t {
  succeeded,
  failed,           ///< a call failed with an errno, or a completion with a status
  failed_silently,  ///< a call failed without an errno, or an object cannot be destroyed
  hung,
};

/// Opens the device, registers memory, connects a queue pair to itself or to the peer at `place`,
/// transfers data, and destroys everything that it created. Writes the name of the step that failed
/// to `step`.
[[nodiscard]] scenario_result run_scenario(meeting_place* place, std::atomic<const char*>& step);

}  // namespace verbena::softdev::testing
