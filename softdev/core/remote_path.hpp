// SPDX-License-Identifier: MIT
// The interface of a path to queue pairs of other processes. The path to those of this process is
// part of the core (same_process.hpp).
#pragma once

#include <span>

#include "softdev/core/message.hpp"

namespace verbena::softdev {

class queue_pair;

/// One virtual call per request that leaves the process; none for those that stay. Calls come with
/// the send lock of `sender` held and inside an access epoch. Implementations are thread-safe, do
/// not allocate and do not block.
class remote_path {
 public:
  /// Starts `what` on its way. `payload` is the data of a send, write; empty else. It is valid
  /// during the call only. `earlier_done` is true when every earlier request of the sender has been
  /// executed by the responder. Answers to `pending` come through `requester::answer` and
  /// `requester::place`, with the same lock held; a read's or atomic's result that is there at once
  /// is handed to `requester::place` before this returns `done`.
  virtual response submit(queue_pair& sender, const message& what, std::span<const segment> payload,
                          bool earlier_done) noexcept = 0;

  /// State, destination or rights of a queue pair changed; it is created (reset) or goes away
  /// (`gone`). At least one lock of the queue pair is held, not always the same one.
  virtual void changed(queue_pair& which, bool gone) noexcept = 0;

 protected:
  ~remote_path() = default;
};

}  // namespace verbena::softdev
