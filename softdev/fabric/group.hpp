// SPDX-License-Identifier: MIT
// Datagrams to multicast groups. Each process that publishes the group gets one record, and
// delivers the datagram to its members. A process that consumes nothing for a while gets no
// datagrams until it consumes records again, so that the others do not wait for it each time.
#pragma once

#include <cstddef>
#include <span>

#include "softdev/fabric/endpoint_state.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, with the send lock of the sender held.
class group_sender {
 public:
  explicit group_sender(endpoint_state& state) noexcept : state_(state) {}

  /// Sends a datagram to the processes of its group, or continues with the rest of them.
  [[nodiscard]] response send(queue_pair& sender, connection& by, const message& what,
                              std::span<const segment> local) noexcept;

 private:
  enum class delivery : std::uint8_t { done, dropped, waits };
  [[nodiscard]] delivery deliver_to_member(queue_pair& sender, peer& to, const message& what,
                                           std::span<const segment> local,
                                           const std::byte*& bad) noexcept;
  [[nodiscard]] pushed push_to_member(peer& to, const message& what, std::span<const segment> local,
                                      const std::byte*& bad) noexcept;

  endpoint_state& state_;
};

/// Returns the group in the route header of a datagram.
[[nodiscard]] gid_bytes group_of(std::span<const std::byte> datagram) noexcept;

}  // namespace verbena::softdev
