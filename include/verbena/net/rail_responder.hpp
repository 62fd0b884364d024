// SPDX-License-Identifier: MIT
// The passive side of a connection over rails.
#pragma once

#include <span>

#include "verbena/base/deadline.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/rail.hpp"
#include "verbena/verbs/access.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {
class responder_thread;
void destroy(responder_thread& of) noexcept;
}  // namespace detail

/// Options of rail_responder::accept(). Threads: immutable value.
struct rail_responder_options {
  /// Access flags of the queue pairs. The peer can access each memory region of the protection
  /// domains whose rkey it has, within the access flags of the region.
  access_flags access = access::remote_read | access::remote_write;
  /// Timeouts and retries of each rail.
  verbena::reliability reliability = {};
};

/// The queue pairs by which a multi_rail_channel of a peer accesses memory of this process. A
/// thread of the object connects them, moves them to the error state when the peer requests it, and
/// reports changes of their ports to the peer. It reads all asynchronous events of the contexts:
/// neither the program nor another object for rails may read them.
///
/// The destructor moves the queue pairs to the error state and destroys them: afterwards the peer
/// no longer accesses memory. Destroy the object before the memory.
///
/// Threads: thread-safe.
class [[nodiscard]] rail_responder {
 public:
  /// Accepts the connection at the other end of `control`, and starts the thread.
  ///
  /// Errors: `invalid_argument` for no rails or more than `max_rails`; `protocol` if the peer has
  /// another number of rails or called accept(), too; those of the stream; the errno of eventfd(2)
  /// or pthread_create(3). Blocks and allocates.
  [[nodiscard]] static result<rail_responder> accept(bringup::stream control,
                                                     std::span<const rail_port> rails,
                                                     deadline until,
                                                     const rail_responder_options& options = {});

  /// Returns false if the stream has ended and the queue pairs are in the error state or destroyed:
  /// the peer no longer accesses memory. If the device refuses both for a queue pair, the stream
  /// ends, and the function still returns true.
  [[nodiscard]] bool is_connected() const noexcept;

 private:
  explicit rail_responder(detail::responder_thread* made) noexcept : thread_(made) {}

  verbena::detail::sole_owner<detail::responder_thread> thread_;
};

}  // namespace verbena::inline VERBENA_ABI::net
