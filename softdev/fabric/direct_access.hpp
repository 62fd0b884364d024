// SPDX-License-Identifier: MIT
// Initiator-side execution: the requester's thread executes a write, read or atomic in the memory
// of the responder's process. It executes what the responder would certainly permit; every other
// request goes to the responder, which alone refuses.
#pragma once

#include <cstdint>
#include <span>

#include "softdev/core/message.hpp"
#include "softdev/core/spread_counter.hpp"
#include "softdev/peers/peer.hpp"

namespace verbena::softdev {

class queue_pair;

/// A request that may be executed by its requester.
struct direct_request {
  const message& what;
  std::span<const segment> local;  ///< payload of a write, or sinks of a read or atomic
  bool earlier_done;               ///< see remote_path::submit
};

/// Threads: thread-safe. Does not allocate.
class direct_access {
 public:
  /// Executes a request of `sender` in the process `at`, and requests that follow it. `out` becomes
  /// `done`; or `blocked` if it could be executed, but an earlier request of the queue pair is not
  /// answered yet and the payload is long: then try again after that answer. Returns false if the
  /// request has to be sent to the responder. Wants the send lock of `sender`.
  [[nodiscard]] bool execute(queue_pair& sender, peer& at, const direct_request& request,
                             response& out) noexcept;

  /// Requests executed in mapped memory; approximate if several threads post.
  [[nodiscard]] std::uint64_t mapped() const noexcept { return mapped_.sum(); }
  /// Requests executed by process_vm_readv(2) or process_vm_writev(2); approximate as above.
  [[nodiscard]] std::uint64_t copied() const noexcept { return copied_.sum(); }

 private:
  spread_counter mapped_;
  spread_counter copied_;
};

}  // namespace verbena::softdev
