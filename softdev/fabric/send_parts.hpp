// SPDX-License-Identifier: MIT
// SRD between processes. If the sender's thread cannot execute a request directly, the request goes
// through the ring in parts, one at a time. Each part is a separate record, which is answered at
// once. So a receiver keeps no state between two records, even if a sender ends, and the records of
// many senders may arrive in any order. If the data of a read has no room, the receiver answers
// that the sender must try again: a record that is kept in the ring could block the records that
// make room.
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
  /// Ends the requests in flight to processes that died. Both locks of the queue pair are held.
  void report_lost(queue_pair& which, connection& mine) noexcept;

 private:
  [[nodiscard]] peer* find_peer(const queue_pair& sender, connection& by,
                                std::uint32_t qpn) noexcept;
  [[nodiscard]] response push(queue_pair& sender, peer& to, const message& what,
                              std::span<const segment> local) noexcept;
  [[nodiscard]] pushed push_part(peer& to, const message& what, const records::request_part& part,
                                 std::span<const segment> local, const std::byte*& bad) noexcept;

  endpoint_state& state_;
};

/// Returns the longest payload of a part between two processes, whose rings have the same size.
[[nodiscard]] std::uint32_t longest_part(const peer& to, transport kind) noexcept;

}  // namespace verbena::softdev
