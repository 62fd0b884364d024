// SPDX-License-Identifier: MIT
// The interface of a path to queue pairs of other processes. The path to queue pairs of this
// process is part of the core (same_process.hpp).
#pragma once

#include <span>

#include "softdev/core/attributes.hpp"
#include "softdev/core/message.hpp"

namespace verbena::softdev {

class queue_pair;

/// Carries requests to queue pairs of other processes. Costs at most one virtual call per request
/// that leaves the process, and one per run of a send queue; other requests cost none. Threads:
/// implementations are thread-safe.
class remote_path {
 public:
  /// Sends `what`, or continues a request that was `partial`. `local` is the payload of a send or
  /// write, or the sinks of a read or atomic; it is valid only during the call. `earlier_done` is
  /// true if the responder has executed every earlier request of the sender: only then may the path
  /// execute this request on behalf of the responder (`done`, direct). Answers to `pending` and
  /// `partial` requests arrive by `requester::answer` and `requester::place`. Over UC and UD, where
  /// responders do not answer, `done` means that the path has taken the request, and every refusal
  /// means that it was dropped. The send lock of `sender` is held, inside an access epoch. Does not
  /// block; allocates only for the first datagram to a process.
  virtual response submit(queue_pair& sender, const message& what, std::span<const segment> local,
                          bool earlier_done) noexcept = 0;

  /// Ends a run of `submit` calls of one sender, as the last call with its send lock. Makes visible
  /// everything that `submit` deferred, so that a list of requests needs one announcement. Does not
  /// block or allocate.
  virtual void end_run(queue_pair& /*sender*/) noexcept {}

  /// Called before requests of `sender` end that no responder has answered: their memory belongs to
  /// the program again. Bytes that a responder reads from it after this call must not reach a
  /// program. The send lock of `sender` is held. Does not block or allocate.
  virtual void disown_payloads(queue_pair& /*sender*/) noexcept {}

  /// Allocates the memory that `changed` needs if the queue pair gets the attributes `next`. Both
  /// locks are held. Throws std::bad_alloc; then nothing has changed.
  virtual void prepare(queue_pair& /*which*/, const queue_pair_attributes& /*next*/) {}

  /// Called before the queue pair is reset. Sends the ACK that is due, if there is room. Both
  /// locks are held. Does not block or allocate.
  virtual void before_reset(queue_pair& /*which*/) noexcept {}

  /// Called when the state, destination or rights of a queue pair, or its port, have changed, and
  /// before it is destroyed (`gone`). Also called when a queue pair in RTR receives its first
  /// request. Both locks are held; if the queue pair failed by itself or received a request, at
  /// least one is.
  virtual void changed(queue_pair& which, bool gone) noexcept = 0;

  /// Waits until no other process acts on the values that were visible before the last `changed`.
  /// Blocks; no lock is held.
  virtual void fence() noexcept = 0;

 protected:
  ~remote_path() = default;
};

}  // namespace verbena::softdev
