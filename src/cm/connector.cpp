// SPDX-License-Identifier: MIT
#include "verbena/cm/connector.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "src/base/earliest.hpp"
#include "src/bringup/socket.hpp"
#include "src/cm/bring_up.hpp"
#include "src/cm/ready_indication.hpp"

namespace verbena::inline VERBENA_ABI::cm {
namespace {

// The limit of one attempt to resolve an address. The address resolution of the kernel (ib_addr,
// seen with Linux 6.1) can miss that a neighbour has answered. It then looks again only at the end
// of the limit that rdma_resolve_addr(3) got.
constexpr std::chrono::milliseconds address_attempt(2000);

}  // namespace

steps<event> connector::wait(event_kind wanted, event_kind or_else, const char* step,
                             deadline until) {
  return detail::wait(channel_, id_,
                      {.call = step,
                       .wanted = wanted,
                       .or_else = or_else,
                       .on_timeout = "no answer in time; check that the host of the peer is up "
                                     "and that UDP port 4791 is open in both directions"},
                      until, &rejection_);
}

steps<void> connector::find(socket_address to, connector_options options, deadline until) {
  if (options.type_of_service)
    VERBENA_CO_TRY_VOID(id_.set_type_of_service(*options.type_of_service));
  for (bool is_resolved = false; !is_resolved;) {
    const auto limit = std::min<deadline::clock::duration>(until.time_left(), address_attempt);
    VERBENA_CO_TRY_VOID(id_.resolve_address(to, limit, options.from));
    auto event = co_await wait(event_kind::address_resolved, event_kind::address_resolved,
                               "rdma_resolve_addr", until);
    is_resolved = event.has_value();
    if (!is_resolved && (event.error().code() != ETIMEDOUT || until.expired()))
      co_return std::move(event).error();
  }
  VERBENA_CO_TRY_VOID(id_.resolve_route(until.time_left()));
  VERBENA_CO_TRY_DISCARD(co_await wait(event_kind::route_resolved, event_kind::route_resolved,
                                       "rdma_resolve_route", until));
  co_return {};
}

result<connector> connector::resolve(const bringup::address& to, deadline until,
                                     const connector_options& options) {
  return resolve_in_steps(to, until, options).wait();
}

steps<connector> connector::resolve_in_steps(bringup::address to, deadline until,
                                             connector_options options) {
  VERBENA_CO_TRY_VOID(detail::check_space(options.space, "connector::resolve"));
  VERBENA_CO_TRY(const auto addresses, co_await bringup::detail::resolve(
                                           to, bringup::detail::resolve_for::connecting, until));
  VERBENA_CO_TRY(const auto channel, detail::open_channel(options.provider));
  std::size_t left = addresses.size();
  for (const auto& each : addresses) {
    VERBENA_CO_TRY(const auto address, socket_address::from_native(*each.get()));
    VERBENA_CO_TRY(auto id, identifier::create(channel, options.space));
    connector made(channel, std::move(id));
    auto found = co_await made.find(address, options, verbena::detail::share_of(until, left));
    if (found) co_return std::move(made);
    if (--left == 0) co_return std::move(found).error();
  }
  co_return error::unavailable(
      EHOSTUNREACH, "connector::resolve", to.host,
      "the host name has no address; check the name, or give an IP address");
}

result<connection> connector::connect(prepared_queue_pair<rc>&& prepared,
                                      const connection_options& options, deadline until,
                                      receive_poster post_receives) {
  return connect_in_steps(std::move(prepared), options, until, post_receives).wait();
}

steps<connection> connector::connect_in_steps(prepared_queue_pair<rc> prepared,
                                              connection_options options, deadline until,
                                              kept_receive_poster post_receives) {
  // If a step fails from here on, the queue pair is destroyed.
  auto taken = std::move(prepared);
  const bool peer_sends_first = options.first == first_sender::passive && id_.is_iwarp();
  if (peer_sends_first && taken.options().signal_all)
    co_return error::invalid_argument(
        "connector::connect", id_.name(),
        "first_sender::passive posts an unsignaled request, but the queue pair has signal_all; "
        "create it without signal_all");
  VERBENA_CO_TRY(auto parameters, detail::parameters_for(id_, taken, options, nullptr));
  VERBENA_CO_TRY_VOID(detail::initialise(id_, taken));
  VERBENA_CO_TRY_VOID(id_.connect(parameters));
  parameters.private_data = {};  // valid in the first step only
  VERBENA_CO_TRY(const auto answer, co_await wait(event_kind::connect_response,
                                                  event_kind::established, "rdma_connect", until));
  const bool needs_establish = answer.kind() == event_kind::connect_response;
  auto ready = result<void>();
  if (needs_establish)
    ready = detail::initialise(id_, taken).and_then([&] {
      return detail::make_ready(id_, taken, answer.connection().value_or(parameters));
    });
  const auto said = answer.private_data();
  connection made(channel_, id_, std::move(taken).into_queue_pair(), {said.begin(), said.end()});
  if (ready && post_receives) ready = post_receives(made.queue_);
  if (ready && needs_establish) ready = id_.establish();
  if (!ready && needs_establish) static_cast<void>(id_.reject());  // so that the peer does not wait
  if (!ready) co_return std::move(ready).error();
  if (peer_sends_first) {
    VERBENA_CO_TRY(auto word,
                   co_await detail::send_ready_indication(channel_, id_, made.queue_, made.said_));
    made.ready_word_ = std::make_shared<memory_region>(std::move(word));
  }
  co_return std::move(made);
}

}  // namespace verbena::inline VERBENA_ABI::cm
