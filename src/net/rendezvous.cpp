// SPDX-License-Identifier: MIT
#include "src/net/rendezvous.hpp"

#include <fmt/format.h>

#include <utility>

#include "src/base/earliest.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

using verbena::detail::earliest;

constexpr std::chrono::seconds time_to_probe{3};

}  // namespace

result<void> probe_store(const bringup::address& at, deadline until) {
  auto connected = bringup::stream::connect(at, earliest(until, time_to_probe));
  if (!connected) return std::move(connected).error();
  return {};
}

result<void> meet_by_service(membership& place, std::optional<store>& own, deadline until,
                             const store_options& options) {
  place.host = store_host::rank_0;
  if (place.rank == 0) {
    // Listens on all addresses, because the name of this host may not be resolvable yet.
    VERBENA_TRY(own, store::open({.host = {}, .port = place.store.port}, options));
    place.store = {.host = "127.0.0.1", .port = own->local_address().port};
    return {};
  }
  retry_pauses pauses(pauses_for_store);
  while (true) {
    // Each attempt resolves the name again, because a restarted host may have another address.
    const auto probed = probe_store(place.store, until);
    if (probed) return {};
    if (!pauses.wait(until))
      return error::timed_out(
          "join", to_string(place.store),
          fmt::format("the store of rank 0 could not be reached before the deadline; check that "
                      "rank 0 runs, and that the service publishes its name before it is ready "
                      "(publishNotReadyAddresses); the last attempt: {}",
                      probed.error().message()));
  }
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
