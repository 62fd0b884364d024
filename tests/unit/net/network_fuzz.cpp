// SPDX-License-Identifier: MIT
// Fuzzes the parsers of host lists, which read files of users.
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/target.hpp"
#include "verbena/net/network.hpp"

namespace verbena::net {
namespace {

using fuzz::require;

void check(const result<network>& read) {
  if (!read) return require(read.error().kind() == error_kind::invalid_argument);
  require(read->size() >= 1 && read->size() <= max_ranks);
  std::vector<network_host> hosts(read->hosts().begin(), read->hosts().end());
  for (std::uint32_t rank = 0; rank < read->size(); ++rank)
    require(hosts[rank].rank == rank && hosts[rank].port != 0);
  // The comment of a host may contain bytes that are not valid UTF-8.
  for (auto& each : hosts) each.comment.clear();
  const auto same = network::create(std::move(hosts)).value();
  require(network::from_json(same.to_json()).value() == same);
}

void run_network(fuzz::input input) {
  const void* const bytes = input.data();
  const std::string_view text(static_cast<const char*>(bytes), input.size());
  check(network::from_json(text));
  check(network::from_toml(text));
}

void network_seeds(fuzz::seed_folder& into) {
  const auto add = [&](const char* name, std::string_view text) {
    into.add(name, std::as_bytes(std::span(text)));
  };
  add("json", R"({"hosts": [{"hostname": "a", "port": 1, "ibdev": "d", "rankid": 0, "comment": "c"},
 {"hostname": "b", "port": 65535, "rankid": 1, "other": [null, 1.5, {"x": true}]}]})");
  add("toml", "[[hosts]]\nhostname = \"a\"\nport = 1\nibdev = \"d\"\nrankid = 0\n");
  add("peers", "[rrddmma]\npeers = [\"192.0.2.1\", \"::1\"]\nport = 7\n");
}

const fuzz::target networks("network", run_network, network_seeds);

}  // namespace
}  // namespace verbena::net
