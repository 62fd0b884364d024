// SPDX-License-Identifier: MIT
// Creates the core of a channel without a queue pair.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "verbena/base/result.hpp"
#include "verbena/channel/channel_options.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/detail/operation_table.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Returns the maximum number of operations in flight. The sum cannot overflow, because each term
/// is at most 2^31 - 1. Errors: `invalid_argument` if max_send_wr or max_recv_wr is out of range.
[[nodiscard]] inline result<std::uint32_t> places_of(const channel_options& options) {
  constexpr std::uint32_t most = 0x7fff'ffff;
  if (options.queues.max_send_wr == 0 || options.queues.max_recv_wr == 0 ||
      options.queues.max_send_wr > most || options.queues.max_recv_wr > most)
    return error::invalid_argument("create_channel", {},
                                   "max_send_wr and max_recv_wr must be between 1 and 2^31 - 1");
  return options.queues.max_send_wr + options.queues.max_recv_wr;
}

/// Returns the error for a hub that has no room for `wanted` operations.
[[nodiscard]] inline error no_room(const protection_domain& domain, const operation_table& of,
                                   std::uint32_t wanted) {
  return error::invalid_argument(
      "create_channel", domain.name(),
      "the completion hub has room for " + std::to_string(of.unreserved()) +
          " more operations in flight, and the channel needs " + std::to_string(wanted));
}

/// Returns the maximum number of slices of a read.
[[nodiscard]] inline std::uint32_t most_read_slices(const channel_options& options,
                                                    const device_attributes& limits) {
  return std::min(options.queues.max_send_sge,
                  static_cast<std::uint32_t>(std::max(limits.max_read_sge(), 1)));
}

/// Creates the core of a channel on the hub of `table`, with a reference count of 1. The caller
/// must then call connect_on_first_use(). Errors: those of protection_domain::create_channel(),
/// except errors of the queue pair. Allocates; may block in the kernel.
[[nodiscard]] result<channel_core*> create_unconnected_core(
    const protection_domain& domain, const std::shared_ptr<operation_table>& table,
    const channel_options& options);

/// Returns `invalid_argument` if the first operation of the channel connects it. The group could
/// not detect a queue pair of a reconnection, and could connect another queue pair.
[[nodiscard]] result<void> check_reconnectable(const char* call, const channel_core& core);

}  // namespace verbena::inline VERBENA_ABI::detail
