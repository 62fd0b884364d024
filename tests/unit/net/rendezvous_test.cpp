// SPDX-License-Identifier: MIT
#include "src/net/rendezvous.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/net/ranks.hpp"

namespace verbena::test {
namespace {

using net::detail::address_to_listen;
using testing_support::expect_error;

/// Returns a lookup with a fixed result.
net::detail::host_lookup found(const std::vector<std::string>& addresses) {
  return [addresses](const bringup::address&, deadline) -> result<std::vector<std::string>> {
    return addresses;
  };
}

/// Returns the host at which rank 0 listens if `host` has these addresses.
std::string listens_at(const std::string& host, const std::vector<std::string>& addresses) {
  const auto at = address_to_listen({.host = host, .port = 7}, test_deadline(), found(addresses));
  EXPECT_EQ(at.value().port, 7);
  return at.value().host;
}

TEST(address_to_listen, of_a_name_with_a_loopback_address_is_the_wildcard) {
  EXPECT_EQ(listens_at("node-a", {"127.0.1.1"}), "");
  EXPECT_EQ(listens_at("node-a", {"::1"}), "");
  EXPECT_EQ(listens_at("node-a", {"192.0.2.1", "127.0.1.1"}), "");
  EXPECT_EQ(listens_at("localhost.example", {"127.0.1.1"}), "");
  EXPECT_EQ(listens_at("localhost..", {"127.0.1.1"}), "");
}

TEST(address_to_listen, of_other_names_is_unchanged) {
  EXPECT_EQ(listens_at("node-a", {"192.0.2.1", "2001:db8::1"}), "node-a");
}

TEST(address_to_listen, of_loopback_and_ip_addresses_is_unchanged_and_not_looked_up) {
  const auto unexpected = [](const bringup::address& of, deadline) {
    ADD_FAILURE() << of.host;
    return result<std::vector<std::string>>(std::vector<std::string>{"127.0.0.1"});
  };
  for (const char* const host :
       {"localhost", "a.localhost", "ip6-localhost", "127.0.1.1", "::1", "192.0.2.1", "2001:db8::1",
        "", "localhost.", "LocalHost", "a.localhost.", "localhost4", "localhost.localdomain",
        "localhost4.localdomain4", "localhost6.localdomain6."})
    EXPECT_EQ(address_to_listen({.host = host}, test_deadline(), unexpected).value().host, host);
}

TEST(address_to_listen, failure_of_the_lookup_is_returned) {
  const auto fails = [](const bringup::address& of, deadline) -> result<std::vector<std::string>> {
    return error::unavailable(EHOSTUNREACH, "getaddrinfo", of.host, "no such name");
  };
  expect_error(address_to_listen({.host = "node-a"}, test_deadline(), fails), "no such name");
}

TEST(look_up_host, returns_addresses_as_text) {
  EXPECT_EQ(net::detail::look_up_host({.host = "127.0.1.1", .port = 7}, test_deadline()).value(),
            std::vector<std::string>{"127.0.1.1"});
  const auto local = net::detail::look_up_host({.host = "localhost"}, test_deadline()).value();
  for (const auto& each : local) EXPECT_TRUE(each.starts_with("127.") || each == "::1") << each;
}

TEST(meet_at_rank_0, opens_the_store_and_sets_the_port) {
  net::membership place{.rank = 0, .size = 1, .store = {.host = "127.0.0.1"}};
  std::optional<net::store> own;
  net::detail::meet_at_rank_0(place, own, test_deadline(), {}).value();
  EXPECT_EQ(place.store, own->local_address());
  std::optional<net::store> second;
  expect_error(net::detail::meet_at_rank_0(place, second, test_deadline(), {}),
               "rank 0 opens the store of its group at this address");
}

}  // namespace
}  // namespace verbena::test
