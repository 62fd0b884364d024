// SPDX-License-Identifier: MIT
#include "verbena/cm/connector.hpp"

#include <cerrno>

#include "src/bringup/socket.hpp"
#include "src/cm/bring_up.hpp"

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
                                      const connection_options& options, deadline until) {
  // From here on the queue pair is destroyed if a step fails.
  auto taken = std::move(prepared);
  VERBENA_TRY(const auto told, detail::parameters_for(id_, taken, options, nullptr));
  VERBENA_TRY_VOID(detail::initialise(id_, taken));
  VERBENA_TRY_VOID(id_.connect(told));
  VERBENA_TRY(const auto answer,
              await(event_kind::connect_response, event_kind::established, "rdma_connect", until));
  const auto said = answer.private_data();
  if (answer.kind() == event_kind::connect_response) {
    auto agreed = answer.connection().value_or(told);
    auto ready = detail::initialise(id_, taken).and_then([&] {
      return detail::make_ready(id_, taken, agreed);
    });
    if (ready) ready = id_.establish();
    if (!ready) {
      static_cast<void>(id_.reject());  // the peer need not wait for its timeout
      return std::move(ready).error();
    }
  }
  return connection(channel_, id_, std::move(taken).into_queue_pair(), {said.begin(), said.end()});
}

}  // namespace verbena::inline VERBENA_ABI::cm
