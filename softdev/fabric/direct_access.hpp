// SPDX-License-Identifier: MIT
// Execution by the initiator: the requester's thread executes a write, read or atomic in the memory
// of the responder's process. It executes only requests that the responder would certainly permit.
// Every other request goes to the responder; only the responder refuses requests.
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
  /// Executes a request of `sender` in the process `at`, and requests that follow it. Sets `out` to
  /// `done`, or to a local fault if local memory is not accessible. If the payload is long and an
  /// earlier request of the queue pair is not answered yet, sets `out` to `blocked`: try again
  /// after that answer. Returns false if the request must be sent to the responder. The send lock
  /// of `sender` is held.
  [[nodiscard]] bool execute(queue_pair& sender, peer& at, const direct_request& request,
                             response& out) noexcept;

  /// Requests executed in mapped memory; approximate if several threads post.
  [[nodiscard]] std::uint64_t mapped() const noexcept { return mapped_.sum(); }
  /// Requests executed by process_vm_readv(2) or process_vm_writev(2); approximate if several
  /// threads post.
  [[nodiscard]] std::uint64_t copied() const noexcept { return copied_.sum(); }

 private:
  spread_counter mapped_;
  spread_counter copied_;
};

}  // namespace verbena::softdev
