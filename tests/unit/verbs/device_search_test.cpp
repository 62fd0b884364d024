// SPDX-License-Identifier: MIT
// The devices of these tests are soft0 with providers that change one property each.
#include "verbena/verbs/device_search.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/verbs/gid_table.hpp"

namespace verbena {
namespace {

using testing_support::expect_error;

class search : public ::testing::Test {
 protected:
  search() {
    hardware.verbs.get_device_name.set([](ibv_device*) { return "mlx5_0"; });
    hardware.verbs.get_device_guid.set(
        [](ibv_device*) { return __be64{network_order(std::uint64_t{0x0002'c903'00a0'7c8e})}; });
    nameless.verbs.get_device_guid.set([](ibv_device*) { return __be64{0}; });
    nameless.verbs.open_device.set([](ibv_device*) -> ibv_context* {
      errno = EACCES;
      return nullptr;
    });
    ibv_device* const native = soft.native();
    devices = {device::borrow(native, hardware, nullptr),
               device::borrow(native, nameless, nullptr)};
  }

  device soft = list_devices(*soft_provider().value()).value().at(0);
  provider hardware = *soft_provider().value();
  provider nameless = *soft_provider().value();
  std::vector<device> devices;
};

TEST_F(search, find_by_name_returns_the_device) {
  EXPECT_EQ(&find_by_name(devices, "mlx5_0")->provider(), &hardware);
  EXPECT_EQ(&find_by_name(devices, "soft0")->provider(), &nameless);
  expect_error(find_by_name(devices, "mlx5"),
               "find_by_name on mlx5 failed: No such device (errno 19): no device matches; "
               "the devices are: mlx5_0, soft0");
  expect_error(find_by_name({}, "mlx5_0"), "there is no RDMA device");
}

TEST_F(search, find_by_guid_returns_the_device) {
  EXPECT_EQ(&find_by_guid(devices, guid::from_number(0x0002'c903'00a0'7c8e))->provider(),
            &hardware);
  expect_error(find_by_guid(devices, guid::from_number(1)), "GUID 0000:0000:0000:0001");
  expect_error(find_by_guid(devices, guid::from_number(1)),
               "the devices are: mlx5_0 (0002:c903:00a0:7c8e), soft0 (no GUID)");
  expect_error(find_by_guid(devices, guid()), "no device matches");
}

TEST_F(search, find_by_interface_returns_the_device) {
  std::string interface;
  for (const auto& entry : soft.open().value().gid_table().value())
    if (const auto name = entry.interface_name()) interface = *name;
  ASSERT_FALSE(interface.empty());
  EXPECT_EQ(&find_by_interface(devices, interface)->provider(), &hardware);
  const auto none = find_by_interface(devices, "nonet7");
  expect_error(none, "network interface nonet7");
  expect_error(none, interface);
  expect_error(none, "soft0 (no interface)");
}

// parity: rrddmma-17
TEST_F(search, find_by_numa_node_returns_the_devices) {
  ibv_device here = *soft.native();
  const auto folder =
      std::filesystem::temp_directory_path() / ("verbena-numa-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "device");
  const auto says = [&](const char* text) { std::ofstream(folder / "device/numa_node") << text; };
  std::snprintf(here.ibdev_path, sizeof here.ibdev_path, "%s", folder.c_str());
  const std::vector<device> two = {device::borrow(&here, hardware, nullptr), soft};
  says("1\n");
  EXPECT_EQ(two[0].numa_node(), 1U);
  EXPECT_EQ(two[1].numa_node(), std::nullopt) << "a software device has no NUMA node";
  const auto found = find_by_numa_node(two, 1).value();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name(), "mlx5_0");
  expect_error(find_by_numa_node(two, 0), "NUMA node 0");
  expect_error(find_by_numa_node(two, 0), "mlx5_0 (node 1), soft0 (no node)");
  for (const char* text : {"-1\n", "", "x\n"}) {
    says(text);
    EXPECT_EQ(two[0].numa_node(), std::nullopt) << text;
  }
  std::filesystem::remove_all(folder);
  EXPECT_EQ(two[0].numa_node(), std::nullopt);
}

// parity: rrddmma-17
TEST_F(search, pattern_finds_all_devices_that_match) {
  const auto found = find_by_pattern(devices, "mlx5_*").value();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(&found[0].provider(), &hardware);
  EXPECT_EQ(find_by_pattern(devices, "*").value().size(), 2U);
  EXPECT_EQ(find_by_pattern(devices, "soft?").value().size(), 1U);
  EXPECT_EQ(find_by_pattern(devices, "[ms]*0").value().size(), 2U);
  expect_error(find_by_pattern(devices, "mlx4*"), "the devices are: mlx5_0, soft0");
  expect_error(find_by_pattern({}, "*"), "there is no RDMA device");
}

// parity: rrddmma-17
TEST_F(search, speed_finds_active_ports_that_are_fast_enough) {
  const auto port = soft.open().value().query_port(port_number(1)).value();
  const double gbps = port.data_gbps().value();
  const auto found = find_by_speed(devices, gbps).value();
  ASSERT_EQ(found.size(), 1U) << "the other device cannot be opened";
  EXPECT_EQ(&found[0].provider(), &hardware);
  const auto none = find_by_speed(devices, 100 * gbps);
  expect_error(none, "an active port of at least");
  expect_error(none, "soft0 (no port)");
}

TEST_F(search, speed_ignores_ports_that_are_not_active) {
  hardware.verbs.query_port.set([](ibv_context*, std::uint8_t, ibv_port_attr* out) {
    *out = {};
    out->state = IBV_PORT_DOWN;
    out->active_width = 2;
    out->active_speed = 32;
    return 0;
  });
  expect_error(find_by_speed(devices, 1), "mlx5_0 (0 Gbit/s)");
}

// parity: rrddmma-17
TEST_F(search, link_layer_finds_ports_of_that_layer) {
  EXPECT_EQ(find_by_link_layer(devices, link_layer::ethernet).value().size(), 1U);
  const auto none = find_by_link_layer(devices, link_layer::infiniband);
  expect_error(none, "link layer InfiniBand");
  expect_error(none, "mlx5_0 (Ethernet)");
}

}  // namespace
}  // namespace verbena
