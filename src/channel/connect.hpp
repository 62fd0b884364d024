// SPDX-License-Identifier: MIT
// What connecting a channel for the first time and again have in common.
#pragma once

#include <optional>

#include "src/channel/connection_options.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/negotiation.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/continuation.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// A new queue pair for a channel that had one, at that index of the GID table, or where the path
/// says. Errors: those of protection_domain::create_queue_pair().
[[nodiscard]] inline result<prepared_queue_pair<rc>> prepare_queue_again(
    const channel_core& of, std::optional<gid_index> at) {
  auto options = queue_pair_options_of(of.options(), of.domain().context());
  // Packets of the old connection that are still on their way must not fit the new one.
  options.first_psn.reset();
  options.gid_index = at;
  const auto& cq = of.table().cq();
  return of.domain().create_queue_pair<rc>(cq, cq, options);
}

/// Who is to be connected to, and how long that may take.
struct way_to_peer {
  bringup::stream& peer;
  deadline until;
};

/// A queue pair that both sides are ready with, and what the peer said of itself.
struct connected_over {
  queue_pair<rc> queue;
  std::optional<continuation> told;
};

/// Connects; the continuations cross with the last frames. Errors: those of
/// bringup::negotiate_queue_pair(); `protocol` for what is no continuation.
[[nodiscard]] result<connected_over> connect_over(prepared_queue_pair<rc>&& prepared,
                                                  const continuation& ours, const way_to_peer& way,
                                                  bringup::negotiation_options options);

}  // namespace verbena::inline VERBENA_ABI::detail
