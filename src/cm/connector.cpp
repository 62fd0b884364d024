// SPDX-License-Identifier: MIT
#include "verbena/cm/connector.hpp"

#include <cerrno>

#include "src/bringup/socket.hpp"
#include "src/cm/bring_up.hpp"
#include "src/cm/ready_indication.hpp"

namespace verbena::inline VERBENA_ABI::cm {
namespace {

// The share of the remaining time for the first of `count` attempts.
deadline share_of(deadline until, std::size_t count) noexcept {
  if (until.is_never() || count <= 1) return until;
  return deadline::after((until.when() - deadline::clock::now()) /
                         static_cast<deadline::clock::rep>(count));
}

}  // namespace

result<event> connector::wait(event_kind wanted, event_kind or_else, const char* step,
                              deadline until) {
  return detail::wait(channel_, id_,
                      {.call = step,
                       .wanted = wanted,
                       .or_else = or_else,
                       .on_timeout = "no answer in time; check that the host of the peer is up "
                                     "and that UDP port 4791 is open in both directions"},
                      until, &rejection_);
}

result<void> connector::find(const socket_address& to, const connector_options& options,
                             deadline until) {
  if (options.type_of_service) VERBENA_TRY_VOID(id_.set_type_of_service(*options.type_of_service));
  VERBENA_TRY_VOID(id_.resolve_address(to, detail::time_left(until), options.from));
  VERBENA_TRY_VOID(
      wait(event_kind::address_resolved, event_kind::address_resolved, "rdma_resolve_addr", until));
  VERBENA_TRY_VOID(id_.resolve_route(detail::time_left(until)));
  VERBENA_TRY_VOID(
      wait(event_kind::route_resolved, event_kind::route_resolved, "rdma_resolve_route", until));
  return {};
}

result<connector> connector::resolve(const bringup::address& to, deadline until,
                                     const connector_options& options) {
  VERBENA_TRY_VOID(detail::check_space(options.space, "connector::resolve"));
  VERBENA_TRY(const auto addresses,
              bringup::detail::resolve(to, bringup::detail::resolve_for::connecting, until));
  VERBENA_TRY(const auto channel, detail::open_channel(options.provider));
  std::size_t left = addresses.size();
  for (const auto& each : addresses) {
    VERBENA_TRY(const auto address, socket_address::from_native(*each.get()));
    VERBENA_TRY(auto id, identifier::create(channel, options.space));
    connector made(channel, std::move(id));
    auto found = made.find(address, options, share_of(until, left));
    if (found) return made;
    if (--left == 0) return std::move(found).error();
  }
  return error::unavailable(EHOSTUNREACH, "connector::resolve", to.host,
                            "the host name has no address; check the name, or give an IP address");
}

result<connection> connector::connect(prepared_queue_pair<rc>&& prepared,
                                      const connection_options& options, deadline until,
                                      receive_poster post_receives) {
  // If a step fails from here on, the queue pair is destroyed.
  auto taken = std::move(prepared);
  const bool peer_sends_first = options.first == first_sender::passive && id_.is_iwarp();
  if (peer_sends_first && taken.options().signal_all)
    return error::invalid_argument("connector::connect", id_.name(),
                                   "first_sender::passive posts an unsignaled request, but the "
                                   "queue pair has signal_all; create it without signal_all");
  VERBENA_TRY(const auto parameters, detail::parameters_for(id_, taken, options, nullptr));
  VERBENA_TRY_VOID(detail::initialise(id_, taken));
  VERBENA_TRY_VOID(id_.connect(parameters));
  VERBENA_TRY(const auto answer,
              wait(event_kind::connect_response, event_kind::established, "rdma_connect", until));
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
  if (!ready) return std::move(ready).error();
  if (peer_sends_first) {
    VERBENA_TRY(auto word, detail::send_ready_indication(channel_, id_, made.queue_, made.said_));
    made.ready_word_ = std::make_shared<memory_region>(std::move(word));
  }
  return made;
}

}  // namespace verbena::inline VERBENA_ABI::cm
