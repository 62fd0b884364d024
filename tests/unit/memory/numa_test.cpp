// SPDX-License-Identifier: MIT
// Placements on the nodes of the host: one on most hosts, two in the virtual machine. The tests
// compare them with the reports of the kernel. VERBENA_TEST_DEVICE selects the device; default:
// soft0.
#include "verbena/memory/numa.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/unit/memory/host_pages.hpp"
#include "tests/unit/verbs/proc_file.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "tests/unit/verbs/tested_device.hpp"
#include "verbena/memory/buffer_pool.hpp"

namespace verbena {
namespace {

using testing_support::expect_error;
using testing_support::log_catcher;
using testing_support::open_soft;

buffer_pool_options options_of(std::size_t bytes, numa_placement placement) {
  return {.classes = {{.bytes = bytes, .count = 1}}, .placement = placement};
}

numa_placement strictly(unsigned node) {
  return numa_placement::on_node(node, numa_binding::strict);
}

// Tests that need placements by the kernel.
class placing : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::may_place()) GTEST_SKIP() << "the kernel refuses placements: no CAP_SYS_NICE";
  }
};

// Makes the kernel refuse placements for the calling thread, as in containers without CAP_SYS_NICE.
void refuse_placements() {
  std::array<sock_filter, 5> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_mempolicy, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mbind, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

TEST(numa, refused_placement_names_the_capability) {
  std::thread([] {
    refuse_placements();
    ASSERT_FALSE(test::may_place());
    const auto before = test::processors_of_thread();
    const unsigned node = numa_nodes()->at(0);
    const auto pd = open_soft().allocate_pd().value();
    expect_error(buffer_pool::create(pd, options_of(1, strictly(node))), "CAP_SYS_NICE");
    expect_error(bind_thread_to_numa_node(node, numa_binding::strict), "CAP_SYS_NICE");
    EXPECT_EQ(test::processors_of_thread(), before);
    const log_catcher log;
    const auto preferred = numa_placement::on_node(node, numa_binding::preferred);
    EXPECT_TRUE(buffer_pool::create(pd, options_of(1, preferred)).has_value());
    EXPECT_TRUE(log.contains("CAP_SYS_NICE")) << log.text();
  }).join();
}

TEST(numa, nodes_are_the_permitted_nodes) {
  std::ifstream file("/proc/self/status");
  std::set<unsigned> allowed;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("Mems_allowed_list:"))
      allowed = test::numbers_of(line.substr(line.find('\t') + 1));
  std::vector<unsigned> expected;
  std::ranges::set_intersection(allowed, test::numbers_in("/sys/devices/system/node/online"),
                                std::back_inserter(expected));
  EXPECT_EQ(numa_nodes().value(), expected);
}

// parity: ibverbs-rs-57
TEST_F(placing, strict_pools_are_on_each_node) {
  const auto pd = test::open_tested().allocate_pd().value();
  for (const unsigned node : numa_nodes().value()) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{3} << 20U}) {
      const auto pool = buffer_pool::create(pd, options_of(bytes, strictly(node))).value();
      const auto all = pool.take(bytes).value();
      EXPECT_EQ(test::pages_of(all.bytes()), std::set{static_cast<int>(node)}) << bytes;
      EXPECT_EQ(test::policy_of(all.bytes().data()), (test::memory_policy{MPOL_BIND, {node}}));
      EXPECT_EQ(numa_nodes_of(all.bytes()).value(), std::vector{node});
      const std::vector<std::byte> zeros(bytes);
      EXPECT_EQ(std::memcmp(all.bytes().data(), zeros.data(), bytes), 0);
    }
  }
}

TEST_F(placing, preferring_pools_are_on_a_node_with_memory) {
  const auto pd = test::open_tested().allocate_pd().value();
  for (const unsigned node : numa_nodes().value()) {
    const auto placement = numa_placement::on_node(node, numa_binding::preferred);
    const auto pool = buffer_pool::create(pd, options_of(1U << 20U, placement)).value();
    auto all = pool.take(1).value();
    const auto policy = test::policy_of(all.bytes().data());
    EXPECT_TRUE(policy.mode == MPOL_PREFERRED || policy.mode == MPOL_PREFERRED_MANY) << policy.mode;
    EXPECT_EQ(policy.nodes, std::set{node});
    std::memset(all.bytes().data(), 7, all.capacity());
    EXPECT_EQ(test::pages_of(all.bytes()), std::set{static_cast<int>(node)});
  }
}

TEST_F(placing, regions_are_allocated_on_each_node) {
  const auto pd = test::open_tested().allocate_pd().value();
  for (const unsigned node : numa_nodes().value()) {
    const auto region =
        allocate_placed(pd, 10000, access::local_write, {.placement = strictly(node)}).value();
    EXPECT_EQ(region.length(), 10000U);
    EXPECT_TRUE(region.owns_memory());
    EXPECT_EQ(test::pages_of(region.bytes()), std::set{static_cast<int>(node)});
  }
  expect_error(allocate_placed(pd, 0, access::local_write, {}), "at least one byte");
  expect_error(allocate_placed(pd, 1, access::remote_write, {.placement = strictly(0)}),
               "need local_write");
}

// soft0 reuses freed memory: it must not have the placement of its earlier use.
TEST_F(placing, placement_ends_with_the_memory) {
  const auto pd = open_soft().allocate_pd().value();
  for (int round = 0; round < 2; ++round) {
    const auto free = pd.allocate(5000, access::local_write).value();
    EXPECT_EQ(test::policy_of(free.bytes().data()), (test::memory_policy{MPOL_DEFAULT, {}}));
    const auto placed =
        allocate_placed(pd, 5000, access::local_write, {.placement = strictly(numa_nodes()->at(0))})
            .value();
    EXPECT_EQ(test::policy_of(placed.bytes().data()).mode, MPOL_BIND);
  }
}

// If no huge pages are free, all normal pages are placed.
TEST_F(placing, pools_that_prefer_huge_pages_are_on_each_node) {
  const auto pd = test::open_tested().allocate_pd().value();
  for (const unsigned node : numa_nodes().value()) {
    auto options = options_of(5U << 20U, strictly(node));
    options.huge_pages = huge_pages::preferred;
    const auto pool = buffer_pool::create(pd, options).value();
    const auto all = pool.take(1).value();
    EXPECT_EQ(test::pages_of(all.bytes()), std::set{static_cast<int>(node)});
  }
}

// parity: ibverbs-rs-58
TEST(numa, nonexistent_node_is_named) {
  const auto pd = open_soft().allocate_pd().value();
  const log_catcher log;
  const auto refused = buffer_pool::create(pd, options_of(1, strictly(999)));
  expect_error(refused, "buffer_pool::create on NUMA node 999 failed: Invalid argument (errno 22)");
  expect_error(refused, "Mems_allowed_list");
  expect_error(refused, "available nodes: " + std::to_string(numa_nodes()->at(0)));
  EXPECT_EQ(refused.error().kind(), error_kind::invalid_argument);
  EXPECT_EQ(log.text(), "");
  const auto placement = numa_placement::on_node(999, numa_binding::preferred);
  EXPECT_TRUE(buffer_pool::create(pd, options_of(1, placement)).has_value());
  EXPECT_TRUE(log.contains("NUMA node 999")) << log.text();
  EXPECT_TRUE(log.contains("the kernel chooses the node instead")) << log.text();
  expect_error(bind_thread_to_numa_node(999, numa_binding::preferred), "NUMA node 999");
}

TEST(numa, size_above_the_node_is_refused_before_allocation) {
  const auto pd = open_soft().allocate_pd().value();
  for (const unsigned node : numa_nodes().value()) {
    const auto kib = test::number_in(test::folder_of(node) + "meminfo", "MemTotal:");
    const auto refused =
        allocate_placed(pd, (kib + 1) * 1024, access::local_write, {.placement = strictly(node)});
    expect_error(refused, "allocate_placed on NUMA node " + std::to_string(node) +
                              " failed: Cannot allocate memory (errno 12)");
    expect_error(refused, std::to_string(kib + 1) + " KiB to bind strictly");
  }
}

// The virtual machine has a node that is small enough for this test (tests/vm/machine_test.py).
TEST(full_node, strict_fails_and_preferred_falls_back) {
  const char* const named = std::getenv("VERBENA_TEST_FULL_NODE");
  if (named == nullptr) GTEST_SKIP() << "no node may be filled";
  const auto full = static_cast<unsigned>(std::strtoul(named, nullptr, 10));
  const auto free = test::number_in(test::folder_of(full) + "meminfo", "MemFree:") * 1024;
  const std::size_t bytes = free + (std::size_t{4} << 20U);
  ASSERT_LT(bytes, std::size_t{256} << 20U) << "the node is too large";
  const auto pd = test::open_tested().allocate_pd().value();
  const auto refused = buffer_pool::create(pd, options_of(bytes, strictly(full)));
  expect_error(refused, "buffer_pool::create on NUMA node " + std::to_string(full) + " failed: ");
  expect_error(refused, "the node has too little free memory");
  expect_error(refused, " MiB free on the node");
  EXPECT_TRUE(refused.error().code() == EIO || refused.error().code() == ENOMEM);
  // The allocated memory was freed.
  EXPECT_TRUE(buffer_pool::create(pd, options_of(1, strictly(full))).has_value());
  const auto placement = numa_placement::on_node(full, numa_binding::preferred);
  const auto pool = buffer_pool::create(pd, options_of(bytes, placement)).value();
  auto all = pool.take(1).value();
  std::memset(all.bytes().data(), 7, all.capacity());
  EXPECT_NE(test::pages_of(all.bytes()), std::set{static_cast<int>(full)});
}

// A device with a NUMA node, while this object exists.
class near_node {
 public:
  near_node(const context& adapter, const std::string& text) : device_(*adapter.native()->device) {
    std::filesystem::create_directories(folder_ / "device");
    std::ofstream(folder_ / "device/numa_node") << text;
    std::memcpy(before_.data(), device_.ibdev_path, before_.size());
    std::snprintf(device_.ibdev_path, before_.size(), "%s", folder_.c_str());
  }
  near_node(const near_node&) = delete;
  near_node& operator=(const near_node&) = delete;
  ~near_node() {
    std::memcpy(device_.ibdev_path, before_.data(), before_.size());
    std::filesystem::remove_all(folder_);
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("verbena-near-" + std::to_string(::getpid()));
  ibv_device& device_;
  std::array<char, sizeof(ibv_device::ibdev_path)> before_{};
};

// parity: ibverbs-rs-57
TEST_F(placing, near_an_adapter_means_its_node) {
  const auto adapter = open_soft();
  const auto pd = adapter.allocate_pd().value();
  const auto near = numa_placement::near_adapter(numa_binding::strict);
  for (const unsigned node : numa_nodes().value()) {
    const near_node attached(adapter, std::to_string(node));
    EXPECT_EQ(numa_node_of(adapter), node);
    EXPECT_EQ(near.node(adapter), node);
    const auto pool = buffer_pool::create(pd, options_of(5000, near)).value();
    const auto all = pool.take(1).value();
    EXPECT_EQ(test::policy_of(all.bytes().data()), (test::memory_policy{MPOL_BIND, {node}}));
    EXPECT_EQ(test::pages_of(all.bytes()), std::set{static_cast<int>(node)});
  }
  const near_node attached(adapter, "999");
  expect_error(buffer_pool::create(pd, options_of(1, near)), "NUMA node 999");
  expect_error(bind_thread_near(adapter, numa_binding::strict), "NUMA node 999");
}

// parity: ibverbs-rs-54
TEST_F(placing, adapter_without_node_has_no_placement) {
  const auto adapter = test::open_tested();
  const auto pd = adapter.allocate_pd().value();
  const auto near = numa_placement::near_adapter(numa_binding::strict);
  const auto look = [&] {
    EXPECT_EQ(numa_node_of(adapter), std::nullopt);
    EXPECT_EQ(near.node(adapter), std::nullopt);
    const auto pool = buffer_pool::create(pd, options_of(5000, near)).value();
    const auto all = pool.take(1).value();
    EXPECT_EQ(test::policy_of(all.bytes().data()).mode, MPOL_DEFAULT);
    EXPECT_EQ(bind_thread_near(adapter, numa_binding::strict).value(), std::nullopt);
    EXPECT_EQ(test::policy_of().mode, MPOL_DEFAULT);
  };
  look();
  const near_node attached(adapter, "-1\n");
  look();
}

// parity: ibverbs-rs-54, ibverbs-rs-55, ibverbs-rs-56
TEST_F(placing, threads_are_bound_to_processors_and_memory_of_a_node) {
  const auto start = test::processors_of_thread();
  for (const unsigned node : numa_nodes().value()) {
    const auto processors = test::numbers_in(test::folder_of(node) + "cpulist");
    std::thread([&] {
      if (processors.empty()) {
        expect_error(bind_thread_to_numa_node(node, numa_binding::strict), "no processors");
        return;
      }
      bind_thread_to_numa_node(node, numa_binding::strict).value();
      const auto here = test::processors_of_thread();
      EXPECT_EQ(here, processors);
      EXPECT_EQ(test::policy_of(), (test::memory_policy{MPOL_BIND, {node}}));
      const test::fresh_memory touched(std::size_t{1} << 20U);
      std::memset(touched.bytes().data(), 7, touched.bytes().size());
      EXPECT_EQ(test::pages_of(touched.bytes()), std::set{static_cast<int>(node)});
      bind_thread_to_numa_node(node, numa_binding::preferred).value();
      EXPECT_NE(test::policy_of().mode, MPOL_BIND);
      EXPECT_EQ(test::policy_of().nodes, std::set{node});
      const auto adapter = open_soft();
      const near_node attached(adapter, std::to_string(node));
      EXPECT_EQ(bind_thread_near(adapter, numa_binding::strict).value(), node);
      EXPECT_EQ(test::policy_of(), (test::memory_policy{MPOL_BIND, {node}}));
      unbind_thread_from_numa_node().value();
      EXPECT_EQ(test::policy_of(), (test::memory_policy{MPOL_DEFAULT, {}}));
      EXPECT_TRUE(std::ranges::includes(test::processors_of_thread(), start));
    }).join();
  }
}

TEST(numa, placements_are_compared) {
  EXPECT_EQ(numa_placement(), numa_placement::anywhere());
  EXPECT_EQ(strictly(1), strictly(1));
  EXPECT_NE(strictly(1), strictly(0));
  EXPECT_NE(strictly(1), numa_placement::on_node(1, numa_binding::preferred));
  EXPECT_NE(strictly(0), numa_placement::near_adapter(numa_binding::strict));
  EXPECT_EQ(strictly(1).binding(), numa_binding::strict);
}

// With the topology of another host, hwloc succeeds without any effect.
TEST(numa_death, topology_of_another_host_stops_the_program) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto ask = [] {
    ::setenv("HWLOC_SYNTHETIC", "node:2 pu:2", 1);
    std::fputs(numa_nodes().error().message().c_str(), stderr);
    std::exit(3);
  };
  EXPECT_EXIT(ask(), ::testing::ExitedWithCode(3), "unset HWLOC_XMLFILE, HWLOC_SYNTHETIC");
}

}  // namespace
}  // namespace verbena
