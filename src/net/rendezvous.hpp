// SPDX-License-Identifier: MIT
// Waiting for the store of a group whose address becomes known later.
#pragma once

#include <chrono>
#include <optional>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/net/membership.hpp"
#include "verbena/net/store.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Pauses between attempts, which become longer up to 1 s. Their length is random, so that many
/// processes do not ask at the same time. Threads: one thread at a time.
class jittered_pauses {
 public:
  /// Blocks for the next pause. Returns false, without blocking, if the deadline would pass.
  [[nodiscard]] bool wait(deadline until);

 private:
  std::chrono::milliseconds longest_{50};
};

/// Returns the earlier of `until` and a point in `most` from now.
[[nodiscard]] deadline earliest(deadline until, std::chrono::nanoseconds most) noexcept;

/// Connects to a store and closes the connection, which shows that the store exists. Blocks for at
/// most 3 s. Errors: those of bringup::stream::connect().
[[nodiscard]] result<void> probe_store(const bringup::address& at, deadline until);

/// On rank 0, opens the store at all addresses of the host. On other ranks, waits until the name of
/// its host is known and the store answers. Completes `place`. Blocks.
///
/// Errors: those of store::open(); `timed_out` with the last reason.
[[nodiscard]] result<void> meet_by_service(membership& place, std::optional<store>& own,
                                           deadline until, const store_options& options);

}  // namespace verbena::inline VERBENA_ABI::net::detail
