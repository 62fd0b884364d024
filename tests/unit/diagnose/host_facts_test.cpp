// SPDX-License-Identifier: MIT
#include "verbena/diagnose/host_facts.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/unit/diagnose/host_tree.hpp"

namespace verbena::diagnose {
namespace {

using testing_support::host_tree;

constexpr const char* limits =
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max open files            1024                 1048576              files     \n"
    "Max locked memory         65536                unlimited            bytes     \n";

TEST(host_facts, empty_tree_yields_defaults) {
  const auto facts = host_tree().facts();
  EXPECT_FALSE(facts.has_infiniband_class);
  EXPECT_TRUE(facts.devices.empty() && facts.interfaces.empty() && facts.adapters.empty());
  EXPECT_FALSE(facts.locked_memory);
  EXPECT_EQ(facts.container, "");
}

TEST(host_facts, numeric_and_unlimited_limits_are_read) {
  host_tree tree;
  const auto facts = tree.file("proc/self/limits", limits).facts();
  ASSERT_TRUE(facts.locked_memory && facts.open_files);
  EXPECT_EQ(facts.locked_memory->soft, 65536U);
  EXPECT_FALSE(facts.locked_memory->hard);
  EXPECT_EQ(facts.open_files->hard, 1048576U);
}

TEST(host_facts, cap_ipc_lock_counts_only_in_the_initial_namespace) {
  host_tree tree;
  tree.file("proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\nSeccomp:\t2\n");
  tree.file("proc/self/uid_map", "         0          0 4294967295\n");
  EXPECT_TRUE(tree.facts().may_lock_memory);
  EXPECT_TRUE(tree.facts().has_seccomp_filter);
  EXPECT_FALSE(tree.facts().in_user_namespace);
  tree.file("proc/self/uid_map", "         0       1000          1\n");
  EXPECT_FALSE(tree.facts().may_lock_memory);
  EXPECT_TRUE(tree.facts().in_user_namespace);
}

TEST(host_facts, devices_have_their_file_or_its_errno) {
  host_tree tree;
  const auto facts =
      tree.device("mlx5_0", "uverbs0", true).device("mlx5_1", "uverbs1", false).facts();
  ASSERT_EQ(facts.devices.size(), 2U);
  EXPECT_EQ(facts.devices[0].node, "/dev/infiniband/uverbs0");
  EXPECT_EQ(facts.devices[0].node_error, 0);
  EXPECT_EQ(facts.devices[1].node_error, ENOENT);
  EXPECT_FALSE(facts.devices[0].emulated);
}

TEST(host_facts, rxe_and_siw_are_distinguished_from_hardware) {
  host_tree tree;
  tree.device("rxe0", "uverbs0", true).file("sys/class/infiniband/rxe0/parent", "eth0\n");
  tree.folder("sys/devices/virtual/infiniband/siw0");
  std::filesystem::create_directory_symlink("../../devices/virtual/infiniband/siw0",
                                            tree.root() / "sys/class/infiniband/siw0");
  const auto facts = tree.facts();
  ASSERT_EQ(facts.devices.size(), 2U);
  EXPECT_TRUE(facts.devices[0].emulated && facts.devices[1].emulated);
}

TEST(host_facts, adapters_are_network_devices_of_rdma_vendors) {
  host_tree tree;
  const auto pci = [&tree](const std::string& at, const char* vendor, const char* device,
                           const char* kind) {
    const std::string folder = "sys/bus/pci/devices/" + at;
    tree.file(folder + "/vendor", vendor).file(folder + "/device", device);
    tree.file(folder + "/class", kind);
  };
  pci("0000:01:00.0", "0x15b3\n", "0x1017\n", "0x020000\n");
  pci("0000:02:00.0", "0x15b3\n", "0xa2d2\n", "0x080100\n");  // no network device
  pci("0000:03:00.0", "0x1d0f\n", "0xec20\n", "0x020000\n");  // ENA
  pci("0000:04:00.0", "0x1d0f\n", "0xefa1\n", "0x020000\n");
  pci("0000:05:00.0", "nonsense", "", "0x02zz");
  const auto facts = tree.facts();
  ASSERT_EQ(facts.adapters.size(), 2U);
  EXPECT_EQ(facts.adapters[0].module, "mlx5_ib");
  EXPECT_EQ(facts.adapters[1].module, "efa");
}

TEST(host_facts, interfaces_and_routes_are_read) {
  host_tree tree;
  tree.interface("eth0", "1500", "0x1003").interface("lo", "65536", "0x9");
  tree.file("proc/net/route",
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
            "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
            "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n");
  const auto facts = tree.facts();
  ASSERT_EQ(facts.interfaces.size(), 2U);
  EXPECT_TRUE(facts.interfaces[0].up && facts.interfaces[0].ethernet);
  EXPECT_EQ(facts.interfaces[0].mtu, 1500U);
  EXPECT_FALSE(facts.interfaces[1].ethernet);
  ASSERT_EQ(facts.routes.size(), 2U);
  EXPECT_EQ(facts.routes[1].destination, 0x0a000000U);
  EXPECT_EQ(facts.routes[1].mask, 0xff000000U);
}

TEST(host_facts, limits_of_the_control_group_and_its_ancestors_are_read) {
  host_tree tree;
  tree.file("proc/self/cgroup", "0::/a.slice/b.service\n");
  tree.file("sys/fs/cgroup/a.slice/rdma.max", "mlx5_0 hca_handle=2 hca_object=max\n");
  tree.file("sys/fs/cgroup/a.slice/rdma.current", "mlx5_0 hca_handle=2 hca_object=20\n");
  tree.file("sys/fs/cgroup/a.slice/b.service/rdma.max", "mlx5_0 hca_handle=max hca_object=2000\n");
  const auto facts = tree.facts();
  ASSERT_EQ(facts.group_limits.size(), 2U);
  EXPECT_EQ(facts.group_limits[0].resource, "hca_object");
  EXPECT_EQ(facts.group_limits[0].allowed, 2000U);
  EXPECT_EQ(facts.group_limits[1].used, 2U);
}

TEST(host_facts, version_1_control_groups_are_read) {
  host_tree tree;
  tree.file("proc/self/cgroup", "7:rdma:/x\n3:cpu:/x\n");
  tree.file("sys/fs/cgroup/rdma/x/rdma.max", "efa_0 hca_handle=1\n");
  ASSERT_EQ(tree.facts().group_limits.size(), 1U);
  EXPECT_EQ(tree.facts().group_limits[0].device, "efa_0");
}

TEST(host_facts, loadable_modules_are_found) {
  host_tree tree;
  tree.file("proc/sys/kernel/osrelease", "6.1.0-9\n")
      .file("proc/modules", "ib_core 1 2 - Live 0\n");
  tree.file("lib/modules/6.1.0-9/modules.dep",
            "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz:\n");
  const auto facts = tree.facts();
  EXPECT_EQ(facts.available, std::vector<std::string>{"rdma_rxe"});
  EXPECT_EQ(facts.loaded, std::vector<std::string>{"ib_core"});
}

TEST(host_facts, containers_are_recognized) {
  EXPECT_EQ(host_tree().file(".dockerenv", "").facts().container, "docker");
  EXPECT_EQ(host_tree().file("run/.containerenv", "").facts().container, "podman");
  EXPECT_EQ(host_tree().file("run/systemd/container", "lxc\n").facts().container, "lxc");
}

TEST(host_facts, kernel_releases_are_compared_numerically) {
  EXPECT_TRUE(kernel_is_at_least("6.1.0-37-amd64", 5, 12));
  EXPECT_TRUE(kernel_is_at_least("5.12", 5, 12));
  EXPECT_FALSE(kernel_is_at_least("5.4.0-200-generic", 5, 12));
  EXPECT_FALSE(kernel_is_at_least("4.19", 5, 12));
  EXPECT_TRUE(kernel_is_at_least("", 5, 12)) << "unknown";
}

class settings_for_other_hosts : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_.data()); }
  void write_key(std::size_t bytes, mode_t mode) {
    key_ = std::string(folder_.data()) + "/key";
    std::ofstream(key_) << std::string(bytes, 's');
    ASSERT_EQ(::chmod(key_.c_str(), mode), 0);
  }
  static wire_settings gather() {
    return gather_wire_settings({.root = "/", .environment = [](const char* name) -> const char* {
                                   if (std::string_view(name) == "VERBENA_SOFTDEV_WIRE")
                                     return wire_;
                                   if (std::string_view(name) == "VERBENA_SOFTDEV_WIRE_KEY_FILE")
                                     return key_.c_str();
                                   return nullptr;
                                 }});
  }

  inline static const char* wire_ = "on";
  inline static std::string key_;

 private:
  std::string folder_ = "/tmp/verbena-key-XXXXXX";
};

TEST_F(settings_for_other_hosts, key_file_is_checked_without_being_read) {
  write_key(32, 0600);
  EXPECT_TRUE(gather().on);
  EXPECT_EQ(gather().key_file, key_);
  EXPECT_EQ(gather().key_problem, "");
  wire_ = "off";
  EXPECT_FALSE(gather().on);
  wire_ = "on";
  write_key(32, 0644);
  EXPECT_NE(gather().key_problem.find("other users have access to it"), std::string::npos);
  write_key(5, 0600);
  EXPECT_NE(gather().key_problem.find("it has 5 bytes"), std::string::npos);
  key_ += "-that-does-not-exist";
  EXPECT_NE(gather().key_problem.find("cannot be opened"), std::string::npos);
  key_ = "";
  EXPECT_NE(gather().key_problem.find("the path is empty"), std::string::npos);
}

}  // namespace
}  // namespace verbena::diagnose
