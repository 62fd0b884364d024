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
  /// Access of the peer to memory of the protection domains.
  access_flags access = access::remote_read | access::remote_write;
  /// Timeouts and retries of each rail.
  verbena::reliability reliability = {};
};

/// Queue pairs by which a multi_rail_channel of a peer accesses memory of this process. A thread of
/// the object connects them, ends them when the peer requests the fence, reports the state of their
/// ports, and reads the asynchronous events of their contexts, which the program must not read.
///
/// The destructor ends the queue pairs: afterwards the peer no longer accesses memory.
///
/// Threads: thread-safe.
class [[nodiscard]] rail_responder {
 public:
  /// Accepts the connection at the other end of `control`, and starts the thread.
  ///
  /// Errors: `invalid_argument` for no rails or more than `max_rails`; `protocol` if the peer has
  /// another number of rails; those of the stream; the errno of eventfd(2) or pthread_create(3).
  /// Blocks and allocates.
  [[nodiscard]] static result<rail_responder> accept(bringup::stream control,
                                                     std::span<const rail_port> rails,
                                                     deadline until,
                                                     const rail_responder_options& options = {});

  /// Returns whether the peer is connected. After the end of its stream, the queue pairs end.
  [[nodiscard]] bool is_connected() const noexcept;

 private:
  explicit rail_responder(detail::responder_thread* made) noexcept : thread_(made) {}

  verbena::detail::sole_owner<detail::responder_thread> thread_;
};

}  // namespace verbena::inline VERBENA_ABI::net
