// SPDX-License-Identifier: MIT
// Options of the link between processes, set by the program or its environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "softdev/shm/segment_layout.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// The permitted routes of bytes between two processes of this host.
enum class route_policy : std::uint8_t {
  automatic,  ///< mappings, process_vm_* where it works, the ring
  no_cma,     ///< mappings and the ring
  ring,       ///< only the ring
};

/// Parses `auto`, `no_cma` or `ring`. Errors: `invalid_argument` for any other text.
[[nodiscard]] result<route_policy> parse_route_policy(std::string_view text);

/// Options of a link. Immutable value.
struct link_options {
  route_policy route = route_policy::automatic;
  std::uint32_t ring_bytes = 1U << 20;  ///< power of two, min_ring_bytes..max_ring_bytes
  /// After this time, a peer that does not answer is overdue: from then on, the timeouts of
  /// requests to it count. An accepted connection without a hello is closed.
  std::chrono::milliseconds pairing_timeout{2000};
  /// The longest time that a fence waits for a peer's thread in one active section (a copy, usually
  /// of microseconds). Then the pairing ends.
  std::chrono::milliseconds section_timeout{5000};
  /// The most pairings with one process, one for each link of the process. Dead pairings whose
  /// memory is still mapped here count. Each needs 2 descriptors and 20 MB of address space.
  std::uint32_t links_per_process = 32;
  /// The most pairings with all processes outside this pid namespace, which cannot be
  /// distinguished.
  std::uint32_t links_without_pid = 256;
  std::uint32_t scan_limit = 8;  ///< with more peers than this, peers ring the doorbell

  /// The defaults, with VERBENA_SOFTDEV_ROUTE applied.
  [[nodiscard]] static result<link_options> from_environment();
};

}  // namespace verbena::softdev
