// SPDX-License-Identifier: MIT
#include "verbena/verbs/device_list.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <utility>

#include "tests/unit/sys/fresh_process.hpp"
#include "tests/unit/verbs/counting_provider.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena {
namespace {

using testing_support::environment;
using testing_support::expect_error;

// Returns how often soft0 is listed.
int soft_count(const result<std::vector<device>>& devices) {
  int count = 0;
  for (const auto& each : devices.value()) count += each.name() == "soft0" ? 1 : 0;
  return count;
}

TEST(list_devices, has_the_software_device_once_and_last) {
  const environment mode("VERBENA_SOFTDEV", nullptr);
  const auto devices = list_devices().value();
  EXPECT_EQ(soft_count(devices), 1);
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices.back().name(), "soft0");
}

TEST(list_devices, follows_the_environment) {
  {
    const environment mode("VERBENA_SOFTDEV", "only");
    EXPECT_EQ(list_devices().value().size(), 1U);
  }
  {
    const environment mode("VERBENA_SOFTDEV", "on");
    EXPECT_EQ(soft_count(list_devices()), 1);
  }
  {
    const environment mode("VERBENA_SOFTDEV", "sometimes");
    expect_error(list_devices(), "VERBENA_SOFTDEV");
    expect_error(open_device(), "VERBENA_SOFTDEV");
    expect_error(open_device("soft0"), "must be on, off or only");
  }
}

TEST(list_devices, off_hides_the_software_device) {
  const environment mode("VERBENA_SOFTDEV", "off");
  // If the kernel does not support RDMA, libibverbs cannot list devices.
  if (const auto devices = list_devices()) {
    EXPECT_EQ(soft_count(devices), 0);
  } else {
    expect_error(devices, "ibv_get_device_list on system failed");
  }
  EXPECT_FALSE(open_device("soft0").has_value());
}

TEST(list_devices_death, missing_libibverbs_leaves_the_software_device) {
  const environment library("VERBENA_LIBIBVERBS", "/nowhere/libibverbs.so");
  VERBENA_IN_FRESH_PROCESS({
    EXPECT_EQ(list_devices().value().size(), 1U);
    EXPECT_EQ(open_device().value().name(), "soft0");
    const environment off("VERBENA_SOFTDEV", "off");
    expect_error(list_devices(), "VERBENA_LIBIBVERBS is set to this path");
  });
}

TEST(list_devices_death, missing_software_device_leaves_hardware) {
  const environment library("VERBENA_SOFTDEV_LIBRARY", "/nowhere/libverbena-soft.so.0");
  VERBENA_IN_FRESH_PROCESS({
    const environment only("VERBENA_SOFTDEV", "only");
    expect_error(list_devices(), "VERBENA_SOFTDEV_LIBRARY is set to this path");
    expect_error(open_device(), "VERBENA_SOFTDEV_LIBRARY is set to this path");
  });
}

TEST(list_devices_death, with_both_missing_each_is_named) {
  const environment system("VERBENA_LIBIBVERBS", "/nowhere/libibverbs.so");
  const environment soft("VERBENA_SOFTDEV_LIBRARY", "/nowhere/libverbena-soft.so.0");
  VERBENA_IN_FRESH_PROCESS({
    const auto devices = list_devices();
    expect_error(devices, "neither RDMA hardware nor the software device can be used");
    expect_error(devices, "/nowhere/libibverbs.so");
    expect_error(devices, "/nowhere/libverbena-soft.so.0");
    EXPECT_EQ(devices.error().kind(), error_kind::unavailable);
  });
}

// parity: ibverbs-4
TEST(list_devices_of_a_provider, error_is_explained) {
  failing_provider failing(*soft_provider().value());
  for (const auto& [code, words] :
       {std::pair{ENOSYS, "modprobe ib_uverbs"}, std::pair{EPERM, "/dev/infiniband"},
        std::pair{ENOMEM, "Cannot allocate memory"}}) {
    failing.fail_call(1, code);
    expect_error(list_devices(failing.get()), words);
  }
}

// parity: ibverbs-2, ibverbs-rs-1
TEST(list_devices_of_a_provider, frees_the_list_after_its_last_device) {
  testing_support::counting_provider counting(*soft_provider().value());
  {
    auto devices = list_devices(counting.get()).value();
    ASSERT_EQ(devices.size(), 1U);
    EXPECT_EQ(counting.live(), "ibv_get_device_list ");
    const device kept = devices.front();
    devices.clear();
    EXPECT_EQ(counting.live(), "ibv_get_device_list ");
  }
  EXPECT_EQ(counting.live(), "");
}

ibv_device** empty_list(int* count) {
  static ibv_device* list[] = {nullptr};
  *count = 0;
  return list;
}

// parity: ibverbs-rs-1, ibverbs-5
TEST(list_devices_of_a_provider, empty_list_is_a_success) {
  provider none = *soft_provider().value();
  none.verbs.get_device_list.set(&empty_list);
  none.verbs.free_device_list.set([](ibv_device**) {});
  EXPECT_TRUE(list_devices(none).value().empty());
}

TEST(open_device, opens_with_and_without_a_name) {
  const environment mode("VERBENA_SOFTDEV", "only");
  EXPECT_EQ(open_device().value().name(), "soft0");
  EXPECT_EQ(open_device("soft0").value().name(), "soft0");
  expect_error(open_device("mlx5_0"), "the devices are: soft0");
}

}  // namespace
}  // namespace verbena
