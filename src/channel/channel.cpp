// SPDX-License-Identifier: MIT
// What a channel can be asked.
#include "verbena/channel/channel.hpp"

#include <cerrno>
#include <string>

#include "verbena/base/assert.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {

result<channel_options> channel::query() const {
  const auto& queue = core().queue();
  if (!queue)
    return error::from_errno(ENOTCONN, "channel::query", {},
                             "the channel lost its queue pair in an earlier failure, and was not "
                             "connected again");
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

error channel::describe_failure() const {
  const channel_failure* const why = failure();
  VERBENA_ASSERT(why != nullptr, "describe_failure() is of a channel that failed");
  error words = why->error();
  if (why->first && why->cause != failure_cause::deadline)
    words = describe(*why->first)
                .with_diagnosis(std::string("posted at ") + why->first->posted().file_name() + ":" +
                                std::to_string(why->first->posted().line()))
                .with_diagnosis("the channel is in error: " + to_string(why->cause))
                .with_diagnosis("operations that did not succeed: " + to_string(why->fates));
  const port_number number = core().options().port;
  const auto port = domain().context().query_port(number);
  if (port && port->state() != port_state::active)
    words = std::move(words).with_diagnosis("port " + std::to_string(number.value()) +
                                            " is not up now: " + to_string(port->state()));
  return words;
}

}  // namespace verbena::inline VERBENA_ABI
