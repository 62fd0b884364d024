// SPDX-License-Identifier: MIT
#include "verbena/net/membership.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/net/environment.hpp"
#include "tests/unit/net/ranks.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/bringup/listener.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

TEST(membership, is_read_from_the_variables_of_torchrun) {
  const launcher_environment set(
      {{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "192.0.2.1"}, {"MASTER_PORT", "29500"}});
  const auto who = net::membership::from_environment().value();
  EXPECT_EQ(who.rank, 3U);
  EXPECT_EQ(who.size, 8U);
  EXPECT_EQ(who.store, (bringup::address{.host = "192.0.2.1", .port = 29500}));
  EXPECT_EQ(who.host, net::store_host::rank_0);
  EXPECT_EQ(who.name, "");
}

TEST(membership, is_read_from_the_variables_of_slurm_and_mpirun) {
  {
    const launcher_environment set(
        {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"VERBENA_STORE", "head:7000"}});
    const auto who = net::membership::from_environment().value();
    EXPECT_EQ(who.rank, 1U);
    EXPECT_EQ(who.size, 2U);
    EXPECT_EQ(who.host, net::store_host::separate);
    EXPECT_EQ(who.store, (bringup::address{.host = "head", .port = 7000}));
  }
  const launcher_environment set({{"OMPI_COMM_WORLD_RANK", "0"},
                                  {"OMPI_COMM_WORLD_SIZE", "4"},
                                  {"VERBENA_STORE", "[2001:db8::1]:7000"},
                                  {"VERBENA_GROUP", "second"},
                                  {"VERBENA_SECRET", "of the second"}});
  const auto who = net::membership::from_environment().value();
  EXPECT_EQ(who.secret, "of the second");
  EXPECT_EQ(who.size, 4U);
  EXPECT_EQ(who.store.host, "2001:db8::1");
  EXPECT_EQ(who.name, "second");
}

TEST(membership, rank_of_torchrun_precedes_that_of_slurm) {
  const launcher_environment set({{"RANK", "2"},
                                  {"WORLD_SIZE", "3"},
                                  {"SLURM_PROCID", "0"},
                                  {"SLURM_NTASKS", "1"},
                                  {"VERBENA_STORE", "head:7000"}});
  EXPECT_EQ(net::membership::from_environment().value().rank, 2U);
}

// mpirun in a job of Slurm: its processes inherit the variables of the job step.
TEST(membership, rank_of_mpirun_precedes_that_of_slurm) {
  std::map<std::string, std::string> variables{{"OMPI_COMM_WORLD_RANK", "2"},
                                               {"OMPI_COMM_WORLD_SIZE", "3"},
                                               {"SLURM_PROCID", "0"},
                                               {"SLURM_NTASKS", "1"},
                                               {"VERBENA_STORE", "head:7000"}};
  const auto read = [&] {
    const launcher_environment set(variables);
    return net::membership::from_environment().value();
  };
  EXPECT_EQ(read().rank, 2U);
  EXPECT_EQ(read().size, 3U);
  variables["RANK"] = "4";
  variables["WORLD_SIZE"] = "5";
  EXPECT_EQ(read().rank, 4U);
}

TEST(membership, etcd_precedes_the_address_of_torchrun) {
  const launcher_environment set({{"RANK", "1"},
                                  {"WORLD_SIZE", "2"},
                                  {"MASTER_ADDR", "head"},
                                  {"VERBENA_ETCD", "http://etcd:2379/jobs"}});
  const auto who = net::membership::from_environment().value();
  EXPECT_EQ(who.host, net::store_host::etcd);
  EXPECT_EQ(who.etcd, "http://etcd:2379/jobs");
  EXPECT_EQ(who.store, bringup::address());
}

TEST(membership, agent_of_torchrun_has_the_master_port) {
  std::map<std::string, std::string> variables{{"RANK", "1"},
                                               {"WORLD_SIZE", "2"},
                                               {"MASTER_ADDR", "head"},
                                               {"MASTER_PORT", "29500"},
                                               {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  const auto port = [&] {
    const launcher_environment set(variables);
    return net::membership::from_environment().value().store.port;
  };
  EXPECT_EQ(port(), 29501);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_EQ(port(), 29500);
  variables["VERBENA_STORE_PORT"] = "7000";
  EXPECT_EQ(port(), 7000);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(port(), 7000);
  variables.erase("MASTER_PORT");
  EXPECT_EQ(port(), 7000);
}

// Two listeners at consecutive free ports: the first is that of the agent.
TEST(membership, ranks_of_torchrun_join_beside_the_store_of_the_agent) {
  std::optional<bringup::listener> agent;
  while (true) {
    agent = bringup::listener::open({.host = "127.0.0.1"}).value();
    const auto port = agent->port();
    if (port == 65535) continue;
    const auto next = static_cast<std::uint16_t>(port + 1);
    if (bringup::listener::open({.host = "127.0.0.1", .port = next})) break;
  }
  std::vector<net::membership> ranks;
  for (const char* const rank : {"0", "1"}) {
    const launcher_environment set({{"RANK", rank},
                                    {"WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", std::to_string(agent->port())},
                                    {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
    ranks.push_back(net::membership::from_environment().value());
  }
  for_each_rank(2, [&](std::uint32_t rank) {
    joined_rank here(ranks[rank]);
    EXPECT_TRUE(here.group.barrier(test_deadline()));
  });
  // Without the variable, the error names the remedy.
  ranks[0].store.port = agent->port();
  const auto device = testing_support::open_soft();
  expect_error(net::group::join(device.allocate_pd().value(), ranks[0], test_deadline()),
               "VERBENA_STORE_PORT");
}

struct invalid_case {
  std::map<std::string, std::string> variables;
  const char* message;
};

TEST(membership, errors_name_the_variable_and_its_value) {
  const std::map<std::string, std::string> good{
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1"}};
  const auto with = [&](const char* name, const char* value) {
    auto changed = good;
    if (value == nullptr)
      changed.erase(name);
    else
      changed[name] = value;
    return changed;
  };
  const invalid_case cases[] = {
      {{}, "RANK and WORLD_SIZE are not set"},
      {with("WORLD_SIZE", nullptr), "RANK is set, but WORLD_SIZE is not"},
      {with("RANK", nullptr), "WORLD_SIZE is set, but RANK is not"},
      {with("RANK", "-1"), "RANK=-1 is not a number from 0 to 4095"},
      {with("RANK", "1x"), "RANK=1x is not a number"},
      {with("RANK", "2"), "RANK=2 is not less than WORLD_SIZE=2"},
      {with("WORLD_SIZE", "5000"), "WORLD_SIZE=5000 is not a number from 0 to 4096"},
      {with("MASTER_ADDR", nullptr), "MASTER_ADDR is not set"},
      {with("MASTER_PORT", nullptr), "MASTER_PORT is not set"},
      {with("MASTER_PORT", "65536"), "MASTER_PORT=65536 is not a number from 0 to 65535"},
      {with("MASTER_PORT", "0"), "MASTER_PORT=0 is not a port"},
      {with("VERBENA_STORE_PORT", "0"), "VERBENA_STORE_PORT=0 is not a port"},
      {with("VERBENA_STORE_PORT", "65536"), "VERBENA_STORE_PORT=65536 is not a number"},
      {with("VERBENA_STORE", "head"), "VERBENA_STORE=head is not host:port"},
      {with("VERBENA_ETCD", "head:2379"), "VERBENA_ETCD=head:2379 is not http://host:port/prefix"},
      {with("VERBENA_GROUP", std::string(256, 'x').c_str()), "a name of 256 bytes"},
  };
  for (const auto& each : cases) {
    const launcher_environment set(each.variables);
    expect_error(net::membership::from_environment(), each.message);
  }
  auto highest = with("MASTER_PORT", "65535");
  highest["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  const launcher_environment set(highest);
  expect_error(net::membership::from_environment(),
               "MASTER_PORT=65535 is the port of the agent of torchrun");
}

// No PMIx server exists, or the library is built without PMIx. Runs in a separate process, because
// libpmix leaks memory.
TEST(membership_process, failure_of_pmix_is_an_error) {
  const launcher_environment set({{"PMIX_NAMESPACE", "no-such-job"}, {"PMIX_RANK", "0"}});
  EXPECT_EXIT(
      {
        const auto failed = net::membership::from_environment();
        if (!failed) std::cerr << failed.error().message() << '\n';
        ::_exit(failed ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "PMIx.*(failed|built without)");
}

TEST(membership, variables_take_precedence_over_pmix) {
  const launcher_environment set({{"PMIX_NAMESPACE", "no-such-job"},
                                  {"PMIX_RANK", "0"},
                                  {"OMPI_COMM_WORLD_RANK", "1"},
                                  {"OMPI_COMM_WORLD_SIZE", "2"},
                                  {"VERBENA_STORE", "localhost:77"}});
  const auto made = net::membership::from_environment();
  EXPECT_EQ(made.value().rank, 1U);
  EXPECT_EQ(made.value().host, net::store_host::separate);
}

TEST(membership, check_names_the_member_that_is_out_of_range) {
  const net::membership good{.rank = 0, .size = 1, .store = {.host = "localhost", .port = 1}};
  EXPECT_TRUE(good.check());
  auto changed = good;
  changed.size = 0;
  expect_error(changed.check(), "a group of 0 ranks is not in the range 1 to 4096");
  changed = good;
  changed.rank = 1;
  expect_error(changed.check(), "rank 1 is not less than the size 1");
  changed = good;
  changed.store.host.clear();
  expect_error(changed.check(), "the store has no host");
  changed.host = net::store_host::pmix;
  EXPECT_TRUE(changed.check());
  changed = good;
  changed.store.port = 0;
  EXPECT_TRUE(changed.check());
  for (const auto host :
       {net::store_host::rank_0, net::store_host::service, net::store_host::separate}) {
    changed.host = host;
    changed.size = host == net::store_host::separate ? 1 : 2;
    expect_error(changed.check(), "the port of the store at localhost is 0");
  }
  changed = good;
  changed.store.host.clear();
  changed.host = net::store_host::etcd;
  expect_error(changed.check(), "VERBENA_ETCD= is not http://host:port/prefix");
  changed.etcd = "http://localhost:2379";
  EXPECT_TRUE(changed.check());
  changed.name = std::string(256, 'x');
  expect_error(changed.check(), "a name of 256 bytes exceeds the limit of 255 bytes");
}

}  // namespace
}  // namespace verbena::test
