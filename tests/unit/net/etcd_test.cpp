// SPDX-License-Identifier: MIT
// The texts of etcd. tests/programs/verbena/rendezvous_test.py tests groups with an etcd server.
#include "src/net/etcd.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "tests/unit/verbs/soft_device.hpp"

namespace verbena::test {
namespace {

using net::detail::announced_store;
using net::detail::parse_announced;
using net::detail::parse_etcd;
using testing_support::expect_error;

TEST(etcd, place_is_a_server_and_a_prefix) {
  const auto full = parse_etcd("https://etcd.example:2379/jobs/a/").value();
  EXPECT_EQ(full.server, "https://etcd.example:2379");
  EXPECT_EQ(full.prefix, "jobs/a");
  for (const char* const each : {"http://[::1]:2379", "http://[::1]:2379/"}) {
    const auto made = parse_etcd(each).value();
    EXPECT_EQ(made.server, "http://[::1]:2379");
    EXPECT_EQ(made.prefix, "verbena");
  }
}

TEST(etcd, invalid_places_are_refused_with_the_value) {
  for (const std::string each : {"", "etcd:2379", "file:///etc", "http:///jobs"})
    expect_error(parse_etcd(each), "VERBENA_ETCD=" + each + " ");
  expect_error(parse_etcd("http://me@etcd"), "has a user name");
  expect_error(parse_etcd("http://etcd/\n"), "not printable ASCII");
}

TEST(etcd, announced_store_is_read_again) {
  announced_store announced;
  for (const std::string host : {"2001:db8::1", "node-a"})
    for (const std::string secret : {"word", ""}) {
      announced.at.host = host;
      announced.at.port = 7471;
      announced.secret = secret;
      EXPECT_EQ(parse_announced(to_text(announced)).value(), announced);
    }
}

TEST(etcd, other_values_are_refused) {
  for (const std::string each :
       {"", "verbena 2 node-a:1 x", "verbena 1 node-a:1", "verbena 1 node-a x", "verbena 1 :1 x",
        "verbena 1 node-a:70000 x"})
    expect_error(parse_announced(each), "has a value that no rank of this version wrote");
  expect_error(parse_announced("verbena 1 node-a:1 " + std::string(2000, 'x')), "no rank");
}

TEST(etcd, rank_without_server_reports_the_server_and_the_last_attempt) {
  net::membership place;
  place.rank = 1;
  place.size = 2;
  place.host = net::store_host::etcd;
  place.etcd = "http://127.0.0.1:9";
  std::optional<net::store> own;
  const auto failed =
      net::detail::meet_by_etcd(place, own, deadline::after(std::chrono::milliseconds(150)), {});
  ASSERT_FALSE(failed);
  const bool has_curl = failed.error().kind() != error_kind::not_supported;
  expect_error(failed, has_curl
                           ? "the last attempt: curl_easy_perform on http://127.0.0.1:9/v3/kv/range"
                           : "was built without libcurl");
  if (has_curl) expect_error(failed, "join on http://127.0.0.1:9 failed");
}

}  // namespace
}  // namespace verbena::test
