// SPDX-License-Identifier: MIT
#include "src/net/rendezvous.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/net/connection_message.hpp"
#include "tests/unit/net/ranks.hpp"

namespace verbena::test {
namespace {

using net::detail::address_to_listen;
using testing_support::expect_error;

/// Returns a lookup with a fixed result.
net::detail::host_lookup found(std::vector<std::string> addresses) {
  return [addresses](const bringup::address&, deadline) -> result<std::vector<std::string>> {
    return addresses;
  };
}

/// Returns the host at which rank 0 listens if `host` has these addresses.
std::string listens_at(const std::string& host, std::vector<std::string> addresses) {
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

// The system resolves 0x7f.1 to 127.0.0.1, as many hosts resolve their own name.
TEST(name_of_this_host, is_a_name_with_a_loopback_address) {
  using net::detail::is_name_of_this_host;
  EXPECT_TRUE(is_name_of_this_host("node-a", "127.0.1.1"));
  EXPECT_TRUE(is_name_of_this_host("0x7f.1", "127.0.0.1"));
  EXPECT_FALSE(is_name_of_this_host("node-a", "192.0.2.1"));
  for (const char* const host : {"", "127.0.1.1", "::1", "localhost", "localhost4."})
    EXPECT_FALSE(is_name_of_this_host(host, "127.0.0.1")) << host;
}

TEST(name_of_this_host, is_the_contact_of_ranks_that_connect_on_first_use) {
  const test_store store;
  for_each_rank(2, [&](std::uint32_t rank) {
    auto who = store.member(rank, 2);
    if (rank == 0) {
      who.store.host = "0x7f.1";
      const joined_rank here(who, {.connect = net::connect_mode::on_first_use});
      EXPECT_EQ(here.group.size(), 2U);
      return;
    }
    // A rank on another host.
    auto client = connect_client(who);
    const context device = testing_support::open_soft();
    const protection_domain pd = device.allocate_pd().value();
    const auto board =
        pd.allocate(1U << 20U, access::local_write | access::remote_read | access::remote_write)
            .value();
    const auto mine = net::detail::encode(net::detail::rank_contact{
        .board = board.remote(), .token = {}, .acceptor = {.host = "192.0.2.1", .port = 1}});
    const auto all =
        client.exchange("verbena: contacts", std::span<const std::byte>(mine), test_deadline());
    ASSERT_TRUE(all) << all.error().message();
    const auto acceptor = net::detail::decode_contact(all->front()).value().acceptor;
    EXPECT_EQ(acceptor.host, "0x7f.1");
  });
}

TEST(name_of_this_host, connects_ranks_on_first_use) {
  const test_store store;
  for_each_rank(2, [&](std::uint32_t rank) {
    auto who = store.member(rank, 2);
    who.store.host = "0x7f.1";
    joined_rank here(who, {.connect = net::connect_mode::on_first_use});
    expect_works(here);
    EXPECT_TRUE(here.group.exchange("end", std::span<const std::byte>(), test_deadline()));
  });
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
