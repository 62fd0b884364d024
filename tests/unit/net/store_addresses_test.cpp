// SPDX-License-Identifier: MIT
// The addresses of the store that rank 0 publishes by PMIx. tests/programs/wire/mpirun_test.py uses
// them with two hosts.
#include "src/net/store_addresses.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "src/bringup/own_names.hpp"
#include "src/bringup/socket.hpp"
#include "tests/unit/net/ranks.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;
using net::detail::addresses_for_hosts;
using net::detail::find_reachable;
using net::detail::published_store;
using testing_support::expect_error;

TEST(published_store, is_read_back_from_its_text) {
  const published_store one{.at = {{"127.0.0.1", 7}}, .secret = ""};
  const published_store several{.at = {{"192.0.2.1", 7}, {"2001:db8::1", 7}, {"node-a", 7}},
                                .secret = "abc"};
  EXPECT_EQ(net::detail::to_text(several), "192.0.2.1:7,[2001:db8::1]:7,node-a:7 abc");
  for (const auto& each : {one, several})
    EXPECT_EQ(net::detail::parse_published(net::detail::to_text(each)).value(), each);
}

TEST(published_store, invalid_text_is_refused) {
  for (const char* const text :
       {"", " secret", "192.0.2.1", "192.0.2.1:0", "192.0.2.1:7,,", "[::1:7"})
    expect_error(net::detail::parse_published(text), "is not a list of addresses");
}

TEST(addresses_for_hosts, are_those_that_other_hosts_can_use_with_ipv4_first) {
  EXPECT_EQ(addresses_for_hosts({"127.0.0.1", "::1", "fe80::1", "2001:db8::1", "192.0.2.1",
                                 "192.0.2.1", "198.51.100.1"}),
            (std::vector<std::string>{"192.0.2.1", "198.51.100.1", "2001:db8::1"}));
  std::vector<std::string> many;
  many.reserve(100);
  for (int i = 0; i < 100; ++i) many.push_back("192.0.2." + std::to_string(i));
  EXPECT_EQ(addresses_for_hosts(many).size(), net::detail::max_published_addresses);
}

TEST(addresses_for_hosts, of_this_host_are_its_own) {
  const auto own = bringup::detail::own_names().value();
  for (const auto& each : addresses_for_hosts().value()) EXPECT_TRUE(own.contains(each)) << each;
}

TEST(put_own_last, keeps_the_order_of_the_others) {
  std::vector<bringup::address> at = {{"172.17.0.1", 7}, {"192.0.2.1", 7}, {"node-a", 7}};
  net::detail::put_own_last(at, std::set<std::string>{"172.17.0.1", "192.0.2.7", "node-b"});
  EXPECT_EQ(at,
            (std::vector<bringup::address>{{"192.0.2.1", 7}, {"node-a", 7}, {"172.17.0.1", 7}}));
}

/// Returns an address at which no process listens.
bringup::address closed_address() {
  return net::store::open({.host = "127.0.0.1"}).value().local_address();
}

/// An address at which a process listens that does not answer.
struct silent_listener {
  unique_fd socket = bringup::detail::listen_at({.host = "127.0.0.1"}, 8).value();
  bringup::address at = bringup::detail::local_address_of(socket.get()).value();
};

TEST(find_reachable, returns_the_first_address_with_a_store) {
  const auto store = net::store::open({.host = "127.0.0.1"}).value();
  const auto& at = store.local_address();
  EXPECT_EQ(find_reachable({at}, test_deadline()).value(), at);
  EXPECT_EQ(find_reachable({closed_address(), at}, test_deadline(), 1h).value(), at);
  EXPECT_EQ(find_reachable({{"localhost", at.port}}, test_deadline()).value(), at);
}

TEST(find_reachable, address_without_an_answer_does_not_delay_the_others) {
  const silent_listener silent;
  const auto store = net::store::open({.host = "127.0.0.1"}).value();
  EXPECT_EQ(find_reachable({silent.at, store.local_address()}, test_deadline(), 1ms).value(),
            store.local_address());
}

TEST(find_reachable, error_has_all_addresses_and_reasons) {
  const auto one = closed_address();
  const auto failed = find_reachable({one, {"127.0.0.1", 1}}, test_deadline(), 1h);
  expect_error(failed, "at any of its addresses: " + to_string(one) +
                           " (Connection refused), 127.0.0.1:1 (Connection refused); check that");
  EXPECT_EQ(failed.error().code(), ECONNREFUSED);
}

TEST(find_reachable, fails_at_the_deadline) {
  const silent_listener silent;
  const auto failed = find_reachable({closed_address(), silent.at}, deadline::after(1ms));
  expect_error(failed, to_string(silent.at) + " (");
  EXPECT_EQ(failed.error().kind(), error_kind::timed_out);
}

}  // namespace
}  // namespace verbena::test
