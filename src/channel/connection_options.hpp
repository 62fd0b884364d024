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

/// The time limit for a queue pair in the error state to flush. After it, the queue pair is
/// destroyed.
inline constexpr std::chrono::seconds flush_timeout{5};

/// Returns the number of requests that the connection manager itself posts on iWARP; see
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
  // The only default that differs from the default of queue pairs. abort_at can limit an operation
  // of a channel, so the device may retry without a limit until the peer posts a receive.
  if (!out.reliability.rnr_retry_count)
    out.reliability.rnr_retry_count = reliability::unlimited_rnr_retries;
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::detail
