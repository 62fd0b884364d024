// SPDX-License-Identifier: MIT
// Queries and descriptions of a channel.
#include "verbena/channel/channel.hpp"

#include <cerrno>
#include <string>

#include "src/channel/connection_record.hpp"
#include "src/verbs/queue_pair_report.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {

result<channel_options> channel::query() const {
  const auto& queue = core().qp();
  if (!queue)
    return error::from_errno(ENOTCONN, "channel::query", {},
                             core().awaits_first_use()
                                 ? "the channel has no queue pair yet: its first operation "
                                   "connects it"
                                 : "the channel has no queue pair since an earlier failure: call "
                                   "reconnect()");
  using attribute = queue_pair_attribute;
  VERBENA_TRY(const auto now,
              queue->query(attribute::access | attribute::pkey_index | attribute::port |
                           attribute::address | attribute::path_mtu | attribute::timeout |
                           attribute::retry_count | attribute::rnr_retry_count |
                           attribute::initiator_depth | attribute::min_rnr_timer |
                           attribute::send_psn | attribute::capabilities));
  channel_options options = core().options();
  const ibv_qp_cap& sizes = now.native().cap;
  options.queues.max_send_sge = sizes.max_send_sge;
  options.queues.max_recv_sge = sizes.max_recv_sge;
  options.queues.max_inline_data = sizes.max_inline_data;
  options.access = now.access().value_or(options.access);
  options.route.port = now.port().value_or(options.route.port);
  options.route.path_mtu = now.path_mtu();
  options.reliability.timeout = now.timeout().value_or(options.reliability.timeout);
  options.reliability.retry_count = now.retry_count().value_or(options.reliability.retry_count);
  options.reliability.rnr_retry_count = now.rnr_retry_count();
  options.reliability.min_rnr_timer =
      now.min_rnr_timer().value_or(options.reliability.min_rnr_timer);
  options.reliability.read_depth = now.initiator_depth().value_or(options.reliability.read_depth);
  options.route.pkey_index = now.pkey_index().value_or(options.route.pkey_index);
  return options;
}

int channel::fd() const { return completion_hub(core().shared_table()).fd(); }
result<bool> channel::arm() { return completion_hub(core().shared_table()).arm(); }
result<std::size_t> channel::wait(deadline until) {
  return completion_hub(core().shared_table()).wait(until);
}
result<std::size_t> channel::next_completed(std::span<completed_operation> out) {
  return completion_hub(core().shared_table()).next_completed(out);
}

std::string to_string(const channel& of) {
  std::string text = "channel";
  if (const auto* queue = of.qp()) text += " on " + queue->name() + detail::peer_of(*queue);
  if (const auto* why = of.failure())
    text += ", ended: " + to_string(why->cause);
  else
    text += of.qp() != nullptr ? ", connected" : ", disconnected";
  text += ", " + std::to_string(of.in_flight()) + " in flight, room for ";
  return text + std::to_string(of.free_sends()) + " sends and " +
         std::to_string(of.free_receives()) + " receives";
}

error channel::describe(const operation_result& failed) const {
  if (const auto& why = core().record().first_use_failure;
      failed.refusal() == refusal::connect_failed && why)
    return *why;
  const auto& queue = core().qp();
  if (!queue || failed.end() == operation_end::aborted) return failed.error();
  if (const completion* done = failed.completion()) return queue->describe(*done);
  if (failed.refusal() == refusal::verb) {
    const post_status refused(refused_post{.code = failed.code()});
    return failed.kind_ == detail::operation_kind::receive
               ? queue->describe_refused_receive(refused)
               : queue->describe_refused_send(refused);
  }
  return failed.error();
}

error channel::describe_failure() const {
  const channel_failure* const why = failure();
  VERBENA_ASSERT(why != nullptr,
                 "describe_failure() of a channel without failure: check failure() first");
  error words = why->error();
  if (why->first && why->cause != failure_cause::aborted)
    words = describe(*why->first)
                .with_diagnosis(std::string("posted at ") + why->first->posted().file_name() + ":" +
                                std::to_string(why->first->posted().line()))
                .with_diagnosis("the connection has ended: " + to_string(why->cause))
                .with_diagnosis("operations that did not succeed: " + to_string(why->fates));
  const port_number number = core().options().route.port;
  const auto port = domain().context().query_port(number);
  if (port && port->state() != port_state::active)
    words = std::move(words).with_diagnosis("port " + std::to_string(number.value()) +
                                            " is not active now: " + to_string(port->state()));
  return words;
}

}  // namespace verbena::inline VERBENA_ABI
