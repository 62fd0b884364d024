// SPDX-License-Identifier: MIT
// A stream of WRITEs or READs between two simulated hosts, to measure goodput and lost packets.
#pragma once

#include <cstdint>

#include "softdev/core/types.hpp"
#include "tests/unit/softdev/wire/simulation/host.hpp"
#include "tests/unit/softdev/wire/simulation/network.hpp"

namespace verbena::softdev::wire::simulation {

struct transfer_setting {
  network_faults faults;
  host_options hosts;
  opcode kind = opcode::rdma_write;
  std::uint32_t bytes = 1U << 20U;  ///< of a request
  std::uint32_t requests = 64;
  std::uint32_t outstanding = 16;
  std::uint64_t seed = 1;
  link_rate link{.packet_time = 200, .queue_packets = 64};
  time_ns pause_after_half = 0;  ///< no request is in flight for this time
};

struct transfer_result {
  bool is_right = false;  ///< all requests have succeeded, with the right bytes
  time_ns elapsed = 0;
  std::uint64_t packets = 0;        ///< of both hosts
  std::uint64_t dropped = 0;        ///< by the bottleneck
  std::uint64_t retransmitted = 0;  ///< request packets
  std::uint64_t timeouts = 0;
  std::uint64_t first_burst = 0;  ///< request packets in the first round trip
  std::uint64_t late_burst = 0;   ///< the same, after the pause

  /// Returns the goodput in bytes per microsecond.
  [[nodiscard]] std::uint64_t goodput(const transfer_setting& of) const noexcept {
    return std::uint64_t{of.bytes} * of.requests * 1000 / elapsed;
  }
};

[[nodiscard]] transfer_result run_transfer(const transfer_setting& chosen);

}  // namespace verbena::softdev::wire::simulation
