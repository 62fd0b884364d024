// SPDX-License-Identifier: MIT
// Options and limits of the queue pairs of channels and message channels.
#pragma once

#include <chrono>
#include <cstdint>

#include "src/verbs/iwarp.hpp"
#include "verbena/channel/channel_options.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/queue_pair_options.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// A queue pair in the error state that has not flushed after this time is destroyed.
inline constexpr std::chrono::seconds flush_timeout{5};

/// Returns how many requests the connection manager posts itself on iWARP:
/// cm::connection_options::first.
[[nodiscard]] inline std::uint32_t first_requests(const context& on) {
  return is_iwarp(on) ? 3 : 0;
}

/// Returns the options of the queue pair of a channel, with room for first_requests() and without
/// the extended posting interface.
[[nodiscard]] inline queue_pair_options<rc> queue_pair_options_of(const channel_options& of,
                                                                  const context& on) {
  queue_pair_options<rc> out{.queues = of.queues,
                             .extended = false,
                             .access = of.access,
                             .route = of.route,
                             .first_psn = of.first_psn,
                             .reliability = of.reliability};
  out.queues.max_send_wr += first_requests(on);
  // Only here does a default differ from that of queue pairs. abort_at can limit an operation of a
  // channel, so the adapter may wait for a receive of the peer without a limit.
  if (!out.reliability.rnr_retry_count)
    out.reliability.rnr_retry_count = reliability::unlimited_rnr_retries;
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::detail
