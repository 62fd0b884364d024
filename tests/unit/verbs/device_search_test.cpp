// SPDX-License-Identifier: MIT
// Devices that differ from soft0 in one respect each are played by soft0 through other providers.
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

TEST_F(search, by_name) {
  EXPECT_EQ(&find_by_name(devices, "mlx5_0")->provider(), &hardware);
  EXPECT_EQ(&find_by_name(devices, "soft0")->provider(), &nameless);
  expect_error(find_by_name(devices, "mlx5"),
               "find_by_name on mlx5 failed: No such device (errno 19): there is no such device; "
               "there are: mlx5_0, soft0");
  expect_error(find_by_name({}, "mlx5_0"), "there is no RDMA device");
}

TEST_F(search, by_guid) {
  EXPECT_EQ(&find_by_guid(devices, guid::from_number(0x0002'c903'00a0'7c8e))->provider(),
            &hardware);
  expect_error(find_by_guid(devices, guid::from_number(1)), "GUID 0000:0000:0000:0001");
  expect_error(find_by_guid(devices, guid::from_number(1)),
               "there are: mlx5_0 (0002:c903:00a0:7c8e), soft0 (no GUID)");
  expect_error(find_by_guid(devices, guid()), "there is no such device");
}

TEST_F(search, by_network_interface) {
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

TEST_F(search, by_numa_node) {
  ibv_device here = *soft.native();
  const auto folder =
      std::filesystem::temp_directory_path() / ("verbena-numa-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "device");
  const auto says = [&](const char* text) { std::ofstream(folder / "device/numa_node") << text; };
  std::snprintf(here.ibdev_path, sizeof here.ibdev_path, "%s", folder.c_str());
  const std::vector<device> two = {device::borrow(&here, hardware, nullptr), soft};
  says("1\n");
  EXPECT_EQ(two[0].numa_node(), 1U);
  EXPECT_EQ(two[1].numa_node(), std::nullopt) << "software is attached nowhere";
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

}  // namespace
}  // namespace verbena
