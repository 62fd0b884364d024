// SPDX-License-Identifier: MIT
// What a channel can be asked.
#include "verbena/channel/channel.hpp"

#include <cerrno>

namespace verbena::inline VERBENA_ABI {

result<channel_options> channel::query() const {
  const auto& queue = core().queue();
  if (!queue)
    return error::from_errno(ENOTCONN, "channel::query", {},
                             "the channel lost its queue pair in an earlier failure");
  using attribute = queue_pair_attribute;
  VERBENA_TRY(const auto now,
              queue->query(attribute::access | attribute::pkey_index | attribute::port |
                           attribute::address | attribute::path_mtu | attribute::timeout |
                           attribute::retry_count | attribute::rnr_retry_count |
                           attribute::reads_as_initiator | attribute::min_rnr_timer |
                           attribute::send_psn | attribute::capabilities));
  channel_options options = core().options();
  const ibv_qp_cap& sizes = now.native().cap;
  options.max_send_sge = sizes.max_send_sge;
  options.max_recv_sge = sizes.max_recv_sge;
  options.max_inline_data = sizes.max_inline_data;
  options.access = now.access().value_or(options.access);
  options.port = now.port().value_or(options.port);
  options.path_mtu = now.path_mtu();
  options.timeout = now.timeout().value_or(options.timeout);
  options.retry_count = now.retry_count().value_or(options.retry_count);
  options.rnr_retry_count = now.rnr_retry_count().value_or(options.rnr_retry_count);
  options.min_rnr_timer = now.min_rnr_timer().value_or(options.min_rnr_timer);
  options.read_depth = now.reads_as_initiator().value_or(options.read_depth);
  options.pkey_index = now.pkey_index().value_or(options.pkey_index);
  return options;
}

error channel::describe(const operation_result& failed) const {
  const auto& queue = core().queue();
  if (!queue || failed.end() == operation_end::deadline) return failed.error();
  if (const completion* done = failed.completion()) return queue->describe(*done);
  if (failed.refusal() == refusal::verb)
    return queue->describe_refused_send(post_status(failed.code(), 0));
  return failed.error();
}

}  // namespace verbena::inline VERBENA_ABI
