// SPDX-License-Identifier: MIT
// What the program or its environment decides about the link between processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "softdev/shm/segment_layout.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// By which ways bytes may travel between two processes of this host.
enum class route_policy : std::uint8_t {
  automatic,  ///< mappings, process_vm_* where it works, the ring
  no_cma,     ///< mappings and the ring
  ring,       ///< the ring alone
};

/// `auto`, `no_cma` or `ring`; anything else is an `invalid_argument` error.
[[nodiscard]] result<route_policy> parse_route_policy(std::string_view text);

/// Options of a link. Immutable value.
struct link_options {
  route_policy route = route_policy::automatic;
  std::uint32_t ring_bytes = 1U << 20;  ///< power of two, min_ring_bytes..max_ring_bytes
  /// After this time a peer that does not answer is overdue: requests to it no longer wait for it
  /// without their own timeouts. A connection that says nothing is closed.
  std::chrono::milliseconds pairing_timeout{2000};
  /// How long a fence waits for a peer's thread that stays within one active section (a copy,
  /// usually of microseconds). Then the pairing ends.
  std::chrono::milliseconds section_timeout{5000};
  /// Pairings with one process (which has as many links), dead ones included whose memory is still
  /// mapped here. Each takes 2 descriptors and 20 MB of address space.
  std::uint32_t links_per_process = 32;
  /// The same for all processes outside this pid namespace together: they cannot be told apart.
  std::uint32_t links_without_pid = 256;
  std::uint32_t scan_limit = 8;  ///< up to so many peers are looked at one by one, without doorbell

  /// The defaults, with VERBENA_SOFTDEV_ROUTE applied.
  [[nodiscard]] static result<link_options> from_environment();
};

}  // namespace verbena::softdev
