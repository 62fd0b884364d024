// SPDX-License-Identifier: MIT
// The identity of the network namespace. A thread can change its namespace (setns, unshare), and
// then the process sees other addresses and ports.
#pragma once

#include <cstdint>

namespace verbena::softdev {

/// Returns a number that identifies the network namespace of this thread; 0 if it is unknown, for
/// example because /proc is not mounted.
[[nodiscard]] std::uint64_t find_network_namespace() noexcept;

/// Returns whether two results of find_network_namespace() are known to differ.
[[nodiscard]] constexpr bool is_other_network(std::uint64_t one, std::uint64_t other) noexcept {
  return one != other && one != 0 && other != 0;
}

}  // namespace verbena::softdev
