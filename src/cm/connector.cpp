// SPDX-License-Identifier: MIT
#include "verbena/cm/connector.hpp"

#include <cerrno>

#include "src/bringup/socket.hpp"
#include "src/cm/bring_up.hpp"
#include "src/cm/go_ahead.hpp"

namespace verbena::inline VERBENA_ABI::cm {
namespace {

// The share of the time left that the first of `count` attempts gets.
deadline share_of(deadline until, std::size_t count) noexcept {
  if (until.is_never() || count <= 1) return until;
  return deadline::after((until.when() - deadline::clock::now()) /
                         static_cast<deadline::clock::rep>(count));
}

}  // namespace

result<event> connector::await(event_kind wanted, event_kind or_else, const char* step,
                               deadline until) {
  return detail::await(channel_, id_,
                       {.call = step,
                        .wanted = wanted,
                        .or_else = or_else,
                        .on_silence = "the connection manager said nothing in time: is the peer "
                                      "up, and is UDP port 4791 let through?"},
                       until, &rejection_);
}

result<void> connector::find(const socket_address& to, const connector_options& options,
                             deadline until) {
  if (options.type_of_service) VERBENA_TRY_VOID(id_.set_type_of_service(*options.type_of_service));
  VERBENA_TRY_VOID(id_.resolve_address(to, detail::time_left(until), options.from));
  VERBENA_TRY_VOID(await(event_kind::address_resolved, event_kind::address_resolved,
                         "rdma_resolve_addr", until));
  VERBENA_TRY_VOID(id_.resolve_route(detail::time_left(until)));
  VERBENA_TRY_VOID(
      await(event_kind::route_resolved, event_kind::route_resolved, "rdma_resolve_route", until));
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
  return error::unavailable(EHOSTUNREACH, "connector::resolve", to.host, "it has no address");
}

result<connection> connector::connect(prepared_queue_pair<rc>&& prepared,
                                      const connection_options& options, deadline until,
                                      const receive_poster& post_receives) {
  // From here on the queue pair is destroyed if a step fails.
  auto taken = std::move(prepared);
  const bool lets_send = options.first == first_sender::answering && id_.is_iwarp();
  if (lets_send && taken.options().signal_all)
    return error::invalid_argument("connector::connect", id_.name(),
                                   "letting the peer send first is a request that must not be "
                                   "signaled, and this queue pair signals all");
  VERBENA_TRY(const auto told, detail::parameters_for(id_, taken, options, nullptr));
  VERBENA_TRY_VOID(detail::initialise(id_, taken));
  VERBENA_TRY_VOID(id_.connect(told));
  VERBENA_TRY(const auto answer,
              await(event_kind::connect_response, event_kind::established, "rdma_connect", until));
  const bool is_asked_back = answer.kind() == event_kind::connect_response;
  auto ready = result<void>();
  if (is_asked_back)
    ready = detail::initialise(id_, taken).and_then([&] {
      return detail::make_ready(id_, taken, answer.connection().value_or(told));
    });
  const auto said = answer.private_data();
  connection made(channel_, id_, std::move(taken).into_queue_pair(), {said.begin(), said.end()});
  if (ready && post_receives) ready = post_receives(made.queue_);
  if (ready && is_asked_back) ready = id_.establish();
  if (!ready && is_asked_back) static_cast<void>(id_.reject());  // the peer need not wait
  if (!ready) return std::move(ready).error();
  if (lets_send) {
    VERBENA_TRY(made.go_ahead_, detail::give_go_ahead(channel_, id_, made.queue_, made.said_));
  }
  return made;
}

}  // namespace verbena::inline VERBENA_ABI::cm
