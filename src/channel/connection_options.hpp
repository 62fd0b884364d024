// SPDX-License-Identifier: MIT
// What channels and message channels ask and expect of their queue pairs.
#pragma once

#include <chrono>
#include <cstdint>

#include "src/verbs/iwarp.hpp"
#include "verbena/channel/channel_options.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/queue_pair_options.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// A queue pair in its error state flushes at once. One that has not after this long is destroyed.
inline constexpr std::chrono::seconds flush_patience{5};

/// Requests that the connection manager posts by itself before the first operation is over, on
/// iWARP: cm::connection_options::first.
[[nodiscard]] inline std::uint32_t first_requests(const context& on) {
  return is_iwarp(on) ? 3 : 0;
}

/// The same as a queue pair of that device is told it: with room for those requests; classic verbs
/// alone, signaled as each request says.
[[nodiscard]] inline queue_pair_options<rc> queue_pair_options_of(const channel_options& of,
                                                                  const context& on) {
  return {.max_send_wr = of.max_send_wr + first_requests(on),
          .max_recv_wr = of.max_recv_wr,
          .max_send_sge = of.max_send_sge,
          .max_recv_sge = of.max_recv_sge,
          .max_inline_data = of.max_inline_data,
          .extended = false,
          .access = of.access,
          .port = of.port,
          .gid_index = of.gid_index,
          .path_mtu = of.path_mtu,
          .first_psn = of.first_psn,
          .timeout = of.timeout,
          .retry_count = of.retry_count,
          .rnr_retry_count = of.rnr_retry_count,
          .min_rnr_timer = of.min_rnr_timer,
          .read_depth = of.read_depth,
          .service_level = of.service_level,
          .traffic_class = of.traffic_class,
          .hop_limit = of.hop_limit,
          .pkey_index = of.pkey_index};
}

}  // namespace verbena::inline VERBENA_ABI::detail
