// SPDX-License-Identifier: MIT
#pragma once

#include "src/channel/connection_record.hpp"
#include "src/channel/unconnected_channel.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/completion_hub.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Gives this module access to the core of a channel, for operations on several channels and for
/// channels that are connected by their first operations.
struct channel_access {
  [[nodiscard]] static verbena::detail::channel_core& core_of(channel& of) { return of.core(); }
  /// Returns whether the device refused to destroy the queue pair, which may execute requests.
  [[nodiscard]] static bool has_undestroyed_queue(channel& of) {
    return of.core().record().has_undestroyed_queue;
  }
  /// Creates a channel without a queue pair; see create_unconnected_core().
  [[nodiscard]] static result<channel> create_unconnected(const protection_domain& domain,
                                                          const completion_hub& hub,
                                                          const channel_options& options) {
    VERBENA_TRY(auto* const core,
                verbena::detail::create_unconnected_core(domain, hub.table_, options));
    return channel(core);
  }
  /// Returns the error of a failed operation, with the cause if the channel could not be connected
  /// or its connection has ended.
  [[nodiscard]] static error reason(const channel& of, const operation_result& failed) {
    if (failed.refusal() == refusal::connect_failed) return of.describe(failed);
    // Posts after a failure are refused, and the failure has the cause.
    if (failed.refusal() == refusal::not_connected && of.failure() != nullptr)
      return of.failure()->error();
    return failed.error();
  }
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
