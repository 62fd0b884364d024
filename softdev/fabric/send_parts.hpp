// SPDX-License-Identifier: MIT
// SRD between processes. A request that cannot be executed by its sender's thread goes through the
// ring in parts, one at a time; each part is a record of its own that is answered at once. So a
// receiver keeps nothing between two records, whatever becomes of a sender, and records of many
// senders may come in any order. What has no room for its answer is sent back to be tried again:
// kept in the ring, it could hold up the very records that make room.
#pragma once

#include <cstddef>
#include <span>

#include "softdev/fabric/endpoint_state.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, with the send lock held. Allocates for a process's first request.
class part_sender {
 public:
  explicit part_sender(endpoint_state& state) noexcept : state_(state) {}

  /// Executes a request, or sends it or its first part.
  [[nodiscard]] response send(queue_pair& sender, connection& by, const message& what,
                              std::span<const segment> local) noexcept;
  /// Ends what was on its way to processes that died. Wants both locks of the queue pair.
  void tell_lost(queue_pair& which, connection& mine) noexcept;

 private:
  [[nodiscard]] peer* find_peer(const queue_pair& sender, connection& by,
                                std::uint32_t qpn) noexcept;
  [[nodiscard]] response push(queue_pair& sender, peer& to, const message& what,
                              std::span<const segment> local) noexcept;
  [[nodiscard]] pushed push_part(peer& to, const message& what, const records::request_part& part,
                                 std::span<const segment> local, const std::byte*& bad) noexcept;

  endpoint_state& state_;
};

/// The longest payload of a part between two processes. Both have rings of one size.
[[nodiscard]] std::uint32_t longest_part(const peer& to, transport kind) noexcept;

}  // namespace verbena::softdev
