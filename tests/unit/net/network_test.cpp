// SPDX-License-Identifier: MIT
#include "verbena/net/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/net/environment.hpp"
#include "tests/unit/verbs/soft_device.hpp"

namespace verbena::test {
namespace {

using net::network;
using net::network_host;
using testing_support::expect_error;

const network_host node_a{.rank = 0, .host = "node-a", .port = 7471, .device = "mlx5_0"};
const network_host node_b{.rank = 1, .host = "node-b", .port = 7472, .comment = "spare"};

/// Expects an error. `expected` is the reason, or the position in the file, a colon and the reason.
template <class T>
void expect_refused(const result<T>& outcome, const std::string& expected) {
  if (!expected.starts_with("network.") && !expected.starts_with("hosts: "))
    return expect_error(outcome, expected);
  const auto end_of_place = expected.find(": ");
  expect_error(outcome,
               "network on " + expected.substr(0, end_of_place) +
                   " failed: Invalid argument (errno 22): " + expected.substr(end_of_place + 2));
}

/// A file that the destructor removes.
class text_file {
 public:
  text_file(const char* name, std::string_view text)
      : path_(std::filesystem::temp_directory_path() /
              ("verbena-" + std::to_string(::getpid()) + "-" + name)) {
    std::ofstream(path_) << text;
  }
  text_file(const text_file&) = delete;
  text_file& operator=(const text_file&) = delete;
  ~text_file() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

constexpr const char* two_hosts = R"({"hosts": [
  {"hostname": "node-b", "port": 7472, "rankid": 1, "comment": "spare", "rack": {"row": [1, {}]}},
  {"hostname": "node-a", "port": 7471, "ibdev": "mlx5_0", "rankid": 0}
], "version": [{"hosts": []}]})";

// parity: ibverbs-rs-64
TEST(network, hosts_in_json_are_ordered_by_rank) {
  const auto read = network::from_json(two_hosts).value();
  EXPECT_THAT(read.hosts(), testing::ElementsAre(node_a, node_b));
  EXPECT_EQ(read.size(), 2U);
}

TEST(network, hosts_in_toml_are_those_of_json) {
  const auto read = network::from_toml(R"(
    [[hosts]]
    hostname = "node-b"
    port = 7472
    rankid = 1
    comment = "spare"

    [[hosts]]
    hostname = "node-a"
    port = 7471
    ibdev = "mlx5_0"
    rankid = 0
  )");
  EXPECT_EQ(read.value(), network::from_json(two_hosts).value());
}

TEST(network, list_of_peers_in_toml_has_the_ranks_in_its_order) {
  const auto read =
      network::from_toml("[rrddmma]\npeers = [\"203.0.113.7\", \"203.0.113.1\"]").value();
  EXPECT_THAT(read.hosts(), testing::ElementsAre(network_host{0, "203.0.113.7", 13337, "", ""},
                                                 network_host{1, "203.0.113.1", 13337, "", ""}));
  EXPECT_EQ(network::from_toml("[rrddmma]\npeers = [\"::1\"]\nport = 7")->hosts()[0].port, 7);
}

TEST(network, json_round_trips) {
  const auto made = network::create({node_b, node_a}).value();
  EXPECT_EQ(network::from_json(made.to_json()).value(), made);
  EXPECT_EQ(network::create({node_a}).value().to_json(),
            "{\n  \"hosts\": [\n    {\n      \"hostname\": \"node-a\",\n      \"port\": 7471,\n"
            "      \"ibdev\": \"mlx5_0\",\n      \"rankid\": 0\n    }\n  ]\n}");
}

struct invalid_text {
  const char* text;
  const char* message;
};

TEST(network, errors_in_json_name_the_line_and_the_key) {
  constexpr std::array cases{
      invalid_text{"", "network.json:1: the text is not JSON"},
      invalid_text{"{\n\"hosts\": [\n}", "network.json:3: the text is not JSON near"},
      invalid_text{R"({"hosts": []} {})", "the text is not JSON near"},
      invalid_text{"[]", "network.json:1: the text must be an object with the key `hosts`"},
      invalid_text{"3", "the text must be an object with the key `hosts`"},
      invalid_text{"{}", "network.json: the key `hosts` is missing"},
      invalid_text{"{\"hosts\":\n3}", "network.json:2: `hosts` must be an array"},
      invalid_text{R"({"hosts": {}})", "`hosts` must be an array"},
      invalid_text{R"({"hosts": [], "hosts": []})", "the key `hosts` occurs twice"},
      invalid_text{"{\"hosts\": []}", "network.json: there are no hosts"},
      invalid_text{"{\"hosts\": [\n[]]}", "network.json:2: hosts[0] must be an object"},
      invalid_text{"{\"hosts\": [\n{\"hostname\": \"a\", \"rankid\": 0}]}",
                   "network.json:2: hosts[0].port is missing"},
      invalid_text{"{\"hosts\": [{\"port\": 1, \"rankid\": 0}]}", "hosts[0].hostname is missing"},
      invalid_text{"{\"hosts\": [{\"port\": 1, \"hostname\": \"a\"}]}",
                   "hosts[0].rankid is missing"},
      invalid_text{"{\"hosts\": [{\"port\":\n\"7471\"}]}",
                   "network.json:2: hosts[0].port is \"7471\"; it must be an integer"},
      invalid_text{"{\"hosts\": [{\"hostname\": 3}]}",
                   "hosts[0].hostname is 3; it must be a string"},
      invalid_text{"{\"hosts\": [{\"port\": 1.5}]}",
                   "hosts[0].port is a number with a fraction; it must be an integer"},
      invalid_text{"{\"hosts\": [{\"port\": null}]}",
                   "hosts[0].port is null; it must be an integer"},
      invalid_text{"{\"hosts\": [{\"port\": {}}]}",
                   "hosts[0].port is an object; it must be an integer"},
      invalid_text{"{\"hosts\": [{\"port\": [1]}]}",
                   "hosts[0].port is an array; it must be an integer"},
      invalid_text{"{\"hosts\": [{\"rankid\": 0, \"rankid\": 1}]}", "hosts[0].rankid occurs twice"},
      invalid_text{"{\"hosts\": [{\"hostname\": \"a\", \"port\": 70000,\n \"rankid\": 0}]}",
                   "network.json:1: hosts[0].port is 70000; it must be 1 to 65535"},
      invalid_text{"{\"hosts\": [{\"hostname\": \"a\", \"port\": 18446744073709551615, "
                   "\"rankid\": 0}]}",
                   "hosts[0].port is 18446744073709551615, which is too large; it must be an "
                   "integer"},
      invalid_text{"{\"hosts\": [{\"port\": 99999999999999999999}]}",
                   "hosts[0].port is 99999999999999999999, which is too large; it must be an "
                   "integer"},
      invalid_text{"{\"hosts\": [{\"rankid\": -99999999999999999999}]}",
                   "hosts[0].rankid is -99999999999999999999, which is too small; it must be an "
                   "integer"},
      invalid_text{"{\"hosts\": [{\"port\": 1e30}]}",
                   "hosts[0].port is a number with a fraction; it must be an integer"},
      invalid_text{"{\"hosts\": [{\"hostname\": \"a\", \"port\": 1, \"rankid\": -1}]}",
                   "hosts[0].rankid is -1; it must be 0 to 4095"},
      invalid_text{"{\"hosts\": [{\"hostname\": \"\", \"port\": 1, \"rankid\": 0}]}",
                   "hosts[0].hostname must be 1 to 253 printable characters of ASCII"},
      invalid_text{"{\"hosts\": [{\"hostname\": \"a b\", \"port\": 1, \"rankid\": 0}]}",
                   "hosts[0].hostname must be 1 to 253 printable characters of ASCII"},
      invalid_text{
          "{\"hosts\": [{\"hostname\": \"a\", \"port\": 1, \"rankid\": 0, \"ibdev\": \"\\n\"}]}",
          "hosts[0].ibdev must be at most 63 printable characters of ASCII"}};
  for (const auto& each : cases) expect_refused(network::from_json(each.text), each.message);
}

TEST(network, errors_in_toml_name_the_line_and_the_key) {
  constexpr std::array cases{
      invalid_text{"hosts = [\n", "network.toml:1: the text is not TOML"},
      invalid_text{"\n x[", "network.toml:2: the text is not TOML"},
      invalid_text{"\n\n# \xc3\xa4\n",
                   "network.toml:3: the text has a character that is not ASCII"},
      invalid_text{"", "network.toml: the key `hosts` is missing"},
      invalid_text{"\nhosts = 3", "network.toml:2: `hosts` must be an array of tables"},
      invalid_text{"hosts = [3]", "hosts[0] must be a table"},
      invalid_text{"[[hosts]]\nport = \"1\"",
                   "network.toml:2: hosts[0].port is \"1\"; it must be an integer"},
      invalid_text{"[[hosts]]\nport = 1979-05-27",
                   "hosts[0].port is a date or time; it must be an integer"},
      invalid_text{"[[hosts]]\nhostname = \"a\"\nrankid = 0",
                   "network.toml:1: hosts[0].port is missing"},
      invalid_text{"[[hosts]]\nhostname = \"a\"\nrankid = 0\nport = 0",
                   "network.toml:1: hosts[0].port is 0; it must be 1 to 65535"},
      invalid_text{"[rrddmma]\npeer = []", "`rrddmma` must be a table with the array `peers`"},
      invalid_text{"[rrddmma]\npeers = [1]", "network.toml:2: peers[0] must be a string"},
      invalid_text{"[rrddmma]\npeers = [\"a\"]\nport = 0",
                   "network.toml:3: rrddmma.port is 0; it must be 1 to 65535"},
      invalid_text{"[rrddmma]\npeers = [\"a\"]\nport = \"1\"",
                   "network.toml:3: rrddmma.port is \"1\"; it must be an integer"},
      invalid_text{"[rrddmma]\npeers = [\"a\",\n\"b c\"]",
                   "network.toml:3: peers[1] must be 1 to 253 printable characters of ASCII"},
      invalid_text{"[rrddmma]\npeers = []\n[[hosts]]", "there are both `hosts` and `rrddmma`"}};
  for (const auto& each : cases) expect_refused(network::from_toml(each.text), each.message);
}

TEST(network, missing_and_duplicate_ranks_are_named) {
  const auto text = [](int first, int second) {
    return "{\"hosts\": [{\"hostname\": \"a\", \"port\": 1, \"rankid\": " + std::to_string(first) +
           "},\n{\"hostname\": \"b\", \"port\": 1, \"rankid\": " + std::to_string(second) + "}]}";
  };
  expect_refused(network::from_json(text(2, 1)),
                 "network.json:2: rank 0 is missing; the next rank is 1 (b)");
  expect_refused(network::from_json(text(0, 2)),
                 "network.json:2: rank 1 is missing; the next rank is 2 (b)");
  expect_refused(network::from_json(text(0, 0)),
                 "network.json:2: rank 0 occurs twice; its first host is a");
  expect_refused(network::create({}), "hosts: there are no hosts");
  expect_error(network::create({node_b}), "rank 0 is missing; the next rank is 1 (node-b)");
  expect_error(network::create({{.rank = ~0U, .host = "a", .port = 1}}),
               "rank 0 is missing; the next rank is 4294967295 (a)");
  expect_error(network::create({{.rank = 0, .host = "a", .port = 0}}),
               "hosts[0].port is 0; it must be 1 to 65535");
}

TEST(network, more_than_the_largest_number_of_ranks_are_refused) {
  std::string json = "{\"hosts\": [";
  std::string toml = "[rrddmma]\npeers = [";
  for (std::uint32_t i = 0; i <= net::max_ranks; ++i) {
    json += "{},";
    toml += "\"a\",";
  }
  expect_error(network::from_json(json + "{}]}"), "there are more than 4096 hosts");
  expect_error(network::from_toml(toml + "]"), "there are more than 4096 hosts");
  expect_error(network::create(std::vector<network_host>(net::max_ranks + 1)),
               "4097 hosts exceed the limit of 4096");
}

TEST(network, file_is_read_by_its_name) {
  const text_file json("network.json", two_hosts);
  EXPECT_EQ(network::read(json.path()).value(), network::from_json(two_hosts).value());
  const text_file toml("network.toml", "[rrddmma]\npeers = [\"a\"]");
  EXPECT_EQ(network::read(toml.path()).value().hosts()[0].host, "a");
  expect_error(network::read("/nonexistent/network.json"),
               "open on /nonexistent/network.json failed");
  expect_error(network::read("/"), "read on / failed");
  const text_file invalid("bad.json", "{\n]");
  expect_error(network::read(invalid.path()),
               "bad.json:2 failed: Invalid argument (errno 22): the text is not JSON");
  const text_file large("large.json", std::string((4U << 20U) + 1, ' '));
  expect_error(network::read(large.path()), "the file exceeds the limit of 4 MiB");
}

TEST(network, own_rank_is_that_of_an_address_or_the_name_of_this_host) {
  const auto with = [](const std::string& host) {
    return network::create({{.rank = 0, .host = "203.0.113.1", .port = 1},
                            {.rank = 1, .host = host, .port = 1}})
        .value();
  };
  EXPECT_EQ(with("127.0.0.1").own_rank().value(), 1U);
  std::array<char, 256> name{};
  ASSERT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  EXPECT_EQ(with(name.data()).own_rank().value(), 1U);
  expect_error(with("203.0.113.2").own_rank(), "no host of the network is an address or the name");
  expect_error(network::create({{.rank = 0, .host = "127.0.0.1", .port = 1},
                                {.rank = 1, .host = name.data(), .port = 1}})
                   .value()
                   .own_rank(),
               "the ranks 0 and 1 are both on this host; set RANK");
}

TEST(network, first_hosts_form_a_network) {
  const auto all = network::create({node_a, node_b}).value();
  EXPECT_THAT(all.first(1).hosts(), testing::ElementsAre(node_a));
  EXPECT_EQ(all.first(2), all);
}

TEST(network, store_of_a_membership_is_at_the_host_of_rank_0) {
  const auto who = network::create({node_a, node_b}).value().membership_of(1);
  EXPECT_EQ(who.rank, 1U);
  EXPECT_EQ(who.size, 2U);
  EXPECT_EQ(who.store, (bringup::address{.host = "node-a", .port = 7471}));
  EXPECT_EQ(who.host, net::store_host::rank_0);
}

TEST(network, membership_is_read_from_a_list_of_hosts) {
  const text_file hosts("hosts.json", two_hosts);
  const std::string name = hosts.path().string();
  {
    const launcher_environment set({{"VERBENA_NETWORK", name}, {"RANK", "1"}, {"WORLD_SIZE", "2"}});
    const auto who = net::membership::from_environment().value();
    EXPECT_EQ(who.rank, 1U);
    EXPECT_EQ(who.store, (bringup::address{.host = "node-a", .port = 7471}));
  }
  {
    const launcher_environment set({{"VERBENA_NETWORK", name},
                                    {"RANK", "0"},
                                    {"WORLD_SIZE", "2"},
                                    {"VERBENA_STORE", "head:7000"}});
    const auto who = net::membership::from_environment().value();
    EXPECT_EQ(who.store.host, "head");
    EXPECT_EQ(who.host, net::store_host::separate);
  }
  {
    const launcher_environment set({{"VERBENA_NETWORK", name}, {"RANK", "0"}, {"WORLD_SIZE", "3"}});
    expect_error(net::membership::from_environment(), "WORLD_SIZE=3, but " + name + " has 2 hosts");
  }
  {
    const launcher_environment set({{"VERBENA_NETWORK", name}});
    expect_error(net::membership::from_environment(), "no host of the network is an address");
  }
  const text_file own("own.toml", "[rrddmma]\npeers = [\"203.0.113.1\", \"127.0.0.1\"]");
  const launcher_environment set({{"VERBENA_NETWORK", own.path().string()}});
  EXPECT_EQ(net::membership::from_environment().value().rank, 1U);
}

}  // namespace
}  // namespace verbena::test
