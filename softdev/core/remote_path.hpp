// SPDX-License-Identifier: MIT
// The interface of a path to queue pairs of other processes. The path to those of this process is
// part of the core (same_process.hpp).
#pragma once

#include <span>

#include "softdev/core/attributes.hpp"
#include "softdev/core/message.hpp"

namespace verbena::softdev {

class queue_pair;

/// At most one virtual call per request that leaves the process, and one per run of a send queue;
/// none for requests that stay. Threads: implementations are thread-safe.
class remote_path {
 public:
  /// Starts `what` on its way, or goes on with one that was `partial`. `local` is the payload of a
  /// send or write, or the sinks of a read or atomic; it is valid during the call only.
  /// `earlier_done` is true when every earlier request of the sender has been executed by the
  /// responder: only then may the path execute this one in the responder's name (`done`, direct).
  /// Answers to `pending` and `partial` come through `requester::answer` and `requester::place`.
  /// Where nobody answers (UC, UD), `done` means taken, and every refusal a drop. The send lock of
  /// `sender` is held, inside an access epoch. Does not block; allocates only for the first
  /// datagram to a process.
  virtual response submit(queue_pair& sender, const message& what, std::span<const segment> local,
                          bool earlier_done) noexcept = 0;

  /// Ends a run of `submit` calls of one sender, as the last call with its send lock: makes visible
  /// what `submit` left for the end, so that a list of requests needs one announcement. Does not
  /// block or allocate.
  virtual void end_run(queue_pair& /*sender*/) noexcept {}

  /// Called before requests of `sender` end that no responder has answered: their memory belongs to
  /// the program again. What a responder reads of it from now on must not reach a program. The send
  /// lock of `sender` is held. Does not block or allocate.
  virtual void disown_payloads(queue_pair& /*sender*/) noexcept {}

  /// Allocates what `changed` needs if the queue pair gets the attributes `next`. Both locks are
  /// held. Throws std::bad_alloc; then nothing has changed.
  virtual void prepare(queue_pair& /*which*/, const queue_pair_attributes& /*next*/) {}

  /// State, destination or rights of a queue pair changed; it is created (reset) or goes away
  /// (`gone`). Both locks are held, unless the queue pair failed by itself: then at least one.
  virtual void changed(queue_pair& which, bool gone) noexcept = 0;

  /// Waits until no other process acts on what was visible before the last `changed`. Blocks; no
  /// lock is held.
  virtual void fence() noexcept = 0;

 protected:
  ~remote_path() = default;
};

}  // namespace verbena::softdev
