// SPDX-License-Identifier: MIT
#include "src/cm/bring_up.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>

#include "verbena/verbs/device_attributes.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {
namespace {

std::uint8_t least(int asked, int limit) noexcept {
  return static_cast<std::uint8_t>(std::clamp(asked, 0, std::clamp(limit, 0, 0xfe)));
}

/// A value of connection_options, which is not reduced, and its limit.
struct wanted_depth {
  const char* name;
  std::optional<std::uint8_t> value;
  int limit;
  const char* of;
};

// An initiator depth above the responder resources of the peer breaks the connection at the first
// excess read.
result<void> check_depth(const char* call, const identifier& id, const wanted_depth& what) {
  if (!what.value || *what.value == connection_parameters::device_maximum ||
      *what.value <= what.limit)
    return {};
  return error::invalid_argument(call, id.name(),
                                 std::string(what.name) + " " + std::to_string(*what.value) +
                                     " exceeds " + std::to_string(what.limit) +
                                     ", the limit of the " + what.of +
                                     "; set a smaller value, or none to use the limit");
}

}  // namespace

result<connection_parameters> parameters_for(const identifier& id,
                                             const prepared_queue_pair<rc>& prepared,
                                             const connection_options& options,
                                             const connection_parameters* asked) {
  if (prepared.native()->context != id.native()->verbs)
    return error::invalid_argument("connect", id.name(),
                                   "the queue pair belongs to a different open device from the "
                                   "connection; create the queue pair with context() of this "
                                   "connector or request");
  const auto& wishes = prepared.options().reliability;
  connection_parameters parameters{
      .private_data = options.private_data,
      .retry_count = wishes.retry_count,
      .rnr_retry_count = wishes.rnr_retries(),
      .shared_receive_queue = prepared.native()->srq != nullptr,
      .queue_pair = prepared.number(),
  };
  VERBENA_TRY(const auto device,
              id.context().and_then([](const auto& open) { return open.query(); }));
  const char* const call = asked != nullptr ? "accept" : "connect";
  VERBENA_TRY_VOID(check_depth(call, id,
                               {"responder_resources", options.responder_resources,
                                device.max_responder_resources(), "device"}));
  VERBENA_TRY_VOID(check_depth(
      call, id,
      {"initiator_depth", options.initiator_depth, device.max_initiator_depth(), "device"}));
  // The request of an iWARP peer need not contain its depths.
  if (asked != nullptr && !id.is_iwarp())
    VERBENA_TRY_VOID(check_depth(call, id,
                                 {"initiator_depth", options.initiator_depth,
                                  asked->initiator_depth, "request of the peer"}));
  const int as_target = asked != nullptr ? asked->responder_resources : wishes.read_depth;
  const int as_initiator = asked != nullptr ? asked->initiator_depth : wishes.read_depth;
  parameters.responder_resources = options.responder_resources.value_or(
      least(std::min<int>(as_target, wishes.read_depth), device.max_responder_resources()));
  parameters.initiator_depth = options.initiator_depth.value_or(
      least(std::min<int>(as_initiator, wishes.read_depth), device.max_initiator_depth()));
  return parameters;
}

result<void> initialise(const identifier& id, prepared_queue_pair<rc>& prepared,
                        access_flags more) {
  VERBENA_TRY(auto changes, id.attributes(queue_pair_state::init));
  // The connection manager sets its own access flags; those of the options replace them.
  changes.set_access(prepared.options().access | more);
  return prepared.modify(changes);
}

result<void> make_ready(const identifier& id, prepared_queue_pair<rc>& prepared,
                        const connection_parameters& agreed) {
  if (id.is_iwarp()) return {};
  const auto& mtu = prepared.options().route.path_mtu;
  const auto& wishes = prepared.options().reliability;
  VERBENA_TRY(auto receiving, id.attributes(queue_pair_state::ready_to_receive));
  if (mtu && receiving.path_mtu()) receiving.set_path_mtu(std::min(*mtu, *receiving.path_mtu()));
  if (agreed.responder_resources != connection_parameters::device_maximum)
    receiving.set_responder_resources(agreed.responder_resources);
  // The connection manager sets the longest timer, 655 ms.
  receiving.set_min_rnr_timer(wishes.min_rnr_timer);
  VERBENA_TRY_VOID(prepared.modify(receiving));
  VERBENA_TRY(auto sending, id.attributes(queue_pair_state::ready_to_send));
  if (agreed.initiator_depth != connection_parameters::device_maximum)
    sending.set_initiator_depth(agreed.initiator_depth);
  sending.set_timeout(wishes.timeout)
      .set_retry_count(wishes.retry_count)
      .set_rnr_retry_count(wishes.rnr_retries());
  return prepared.modify(sending);
}

steps<event> wait(event_channel channel, identifier id, step what, deadline until,
                  std::optional<rejection>* refused) {
  for (;;) {
    VERBENA_CO_TRY(auto taken, co_await next_event(channel, until));
    if (!taken) co_return error::timed_out(what.call, id.name(), what.on_timeout);
    if (taken->kind() == what.wanted || taken->kind() == what.or_else) co_return *std::move(taken);
    if (auto said = taken->rejected(); said && refused != nullptr) *refused = *std::move(said);
    if (is_failure(taken->kind())) co_return taken->failure(what.call.view());
    if (taken->kind() == event_kind::disconnected)
      co_return error::from_errno(ECONNRESET, what.call, id.name(),
                                  "the peer closed the connection");
  }
}

steps<std::optional<event>> next_event(event_channel channel, deadline until) {
  for (;;) {
    VERBENA_CO_TRY(auto taken, channel.poll_event());
    if (taken) co_return std::move(taken);
    VERBENA_CO_TRY(const bool is_ready,
                   co_await verbena::detail::ready(channel.fd(), POLLIN, until));
    if (!is_ready) co_return std::nullopt;
  }
}

result<event_channel> open_channel(const verbena::provider* from) {
  return from != nullptr ? event_channel::create(*from) : event_channel::create();
}

result<void> check_space(port_space space, const char* call) {
  if (!has_datagrams(space)) return {};
  return error::invalid_argument(call, "port space " + to_string(space),
                                 "its queue pairs are datagrams, which are not connected; use "
                                 "cm::identifier");
}

}  // namespace verbena::inline VERBENA_ABI::cm::detail
