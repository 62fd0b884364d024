// SPDX-License-Identifier: MIT
#include "src/net/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/earliest.hpp"
#include "src/bringup/own_names.hpp"
#include "src/bringup/socket.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

using verbena::detail::earliest;

constexpr std::chrono::seconds time_to_probe{3};

// Returns true for the names of the loopback interface in RFC 6761 and in /etc/hosts of
// distributions. Names are equal regardless of the case, and with or without the final dot.
bool is_name_of_loopback(std::string_view host) {
  constexpr std::array names{"localhost",   "localhost.localdomain",   "localhost.localdomain4",
                             "localhost4",  "localhost4.localdomain4", "localhost.localdomain6",
                             "localhost6",  "localhost6.localdomain6", "ip6-localhost",
                             "ip6-loopback"};
  std::string name(host);
  if (name.ends_with('.')) name.pop_back();
  for (char& each : name)
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  return name.ends_with(".localhost") || std::ranges::find(names, name) != names.end();
}

}  // namespace

bool is_ip_address(std::string_view host) {
  return host.find(':') != std::string_view::npos ||
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

result<std::vector<std::string>> look_up_host(const bringup::address& of, deadline until) {
  using bringup::detail::resolve_for;
  VERBENA_TRY(const auto found, bringup::detail::resolve(of, resolve_for::listening, until).wait());
  std::vector<std::string> addresses;
  addresses.reserve(found.size());
  for (const auto& each : found) addresses.push_back(bringup::detail::address_of(each).host);
  return addresses;
}

result<bringup::address> address_to_listen(const bringup::address& at, deadline until,
                                           const host_lookup& look_up) {
  if (is_ip_address(at.host) || is_name_of_loopback(at.host)) return at;
  VERBENA_TRY(const auto addresses, look_up(at, until));
  if (std::ranges::none_of(addresses, bringup::detail::is_loopback)) return at;
  return bringup::address{.host = {}, .port = at.port};
}

result<void> meet_at_rank_0(membership& place, std::optional<store>& own, deadline until,
                            const store_options& options) {
  VERBENA_TRY(const auto at, address_to_listen(place.store, until));
  auto opened = open_resolved(
      at, until, [&](const bringup::address& each) { return store::open(each, options); });
  if (!opened && opened.error().is(std::errc::address_in_use))
    return std::move(opened).error().with_diagnosis(
        "rank 0 opens the store of its group at this address; VERBENA_STORE_PORT or "
        "membership::store, with the same port on all ranks, selects another one");
  VERBENA_TRY(own, std::move(opened));
  place.store.port = own->local_address().port;
  return {};
}

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
