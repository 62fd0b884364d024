// SPDX-License-Identifier: MIT
// Code shared by connecting and reconnecting a channel.
#pragma once

#include <optional>

#include "src/channel/connection_options.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/negotiation.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/resume_token.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Creates the new queue pair of a reconnection with GID index `at`. If `at` is nullopt, the path
/// determines the GID index. Errors: those of protection_domain::create_qp().
[[nodiscard]] inline result<prepared_queue_pair<rc>> prepare_queue_again(
    const channel_core& of, std::optional<gid_index> at) {
  auto options = queue_pair_options_of(of.options(), of.domain().context());
  // The new PSN is random: late packets of the old connection must not match.
  options.first_psn.reset();
  options.route.gid_index = at;
  const auto& cq = of.table().cq();
  return of.domain().create_qp<rc>(cq, cq, options);
}

/// The stream to the peer and the deadline of the connection.
struct way_to_peer {
  bringup::stream& peer;
  deadline until;
};

/// A connected queue pair and the resume token of the peer.
struct connected_over {
  queue_pair<rc> queue;
  std::optional<resume_token> peer_token;
};

/// Connects and exchanges resume tokens with the last frames. Errors: those of
/// bringup::negotiate_queue_pair(); `protocol` for a malformed resume token.
[[nodiscard]] steps<connected_over> connect_over(prepared_queue_pair<rc> prepared,
                                                 resume_token ours, way_to_peer way,
                                                 bringup::negotiation_options options);

}  // namespace verbena::inline VERBENA_ABI::detail
