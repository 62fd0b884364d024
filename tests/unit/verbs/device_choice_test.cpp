// SPDX-License-Identifier: MIT
// In these tests, an adapter is soft0 with a provider of the origin `system`.
#include "src/verbs/device_choice.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena::detail {
namespace {

using testing_support::expect_error;

const char* hardware_name(ibv_device* /*device*/) { return "mlx5_0"; }
__be64 hardware_guid(ibv_device* /*device*/) { return network_order(std::uint64_t{0x1234}); }
int port_down(ibv_context* /*context*/, std::uint8_t /*port*/, ibv_port_attr* out) {
  *out = {};
  out->state = IBV_PORT_DOWN;
  return 0;
}
ibv_context* no_permission(ibv_device* /*device*/) {
  errno = EACCES;
  return nullptr;
}

provider hardware() {
  provider made = *soft_provider().value();
  made.origin = provider_origin::system;
  made.verbs.get_device_name.set(&hardware_name);
  made.verbs.get_device_guid.set(&hardware_guid);
  return made;
}

// soft0 refuses to open a copy of its ibv_device, so the original is opened.
ibv_context* open_soft0(ibv_device* /*device*/) {
  static const std::vector<device> list = list_devices(*soft_provider().value()).value();
  return soft_provider().value()->verbs.open_device(list.at(0).native());
}

/// A provider of rxe, for a device in a folder_of_software.
provider rxe() {
  provider made = *soft_provider().value();
  made.origin = provider_origin::system;
  made.verbs.get_device_name.set([](ibv_device*) { return "rxe0"; });
  made.verbs.open_device.set(&open_soft0);
  return made;
}

/// A folder of sysfs of a software device, which has no parent device.
class folder_of_software {
 public:
  folder_of_software() { std::filesystem::create_directories(path_); }
  folder_of_software(const folder_of_software&) = delete;
  folder_of_software& operator=(const folder_of_software&) = delete;
  ~folder_of_software() { std::filesystem::remove_all(path_); }

  void set(ibv_device& of) const {
    std::snprintf(of.ibdev_path, sizeof of.ibdev_path, "%s", path_.c_str());
  }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("verbena-rxe0-" + std::to_string(::getpid()));
};

std::vector<device> soft_list() { return list_devices(*soft_provider().value()).value(); }

std::string names(const std::vector<device>& devices) {
  std::string text;
  for (const auto& each : devices)
    text.append(to_string(each.origin())).append(":").append(each.name()).append(" ");
  return text;
}

void expect_has(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(parse_soft_mode, accepts_on_off_and_only) {
  EXPECT_EQ(parse_soft_mode(nullptr).value(), soft_mode::on);
  EXPECT_EQ(parse_soft_mode("").value(), soft_mode::on);
  EXPECT_EQ(parse_soft_mode("on").value(), soft_mode::on);
  EXPECT_EQ(parse_soft_mode("off").value(), soft_mode::off);
  EXPECT_EQ(parse_soft_mode("only").value(), soft_mode::only);
}

TEST(parse_soft_mode, other_value_is_refused_with_the_name_of_the_variable) {
  for (const char* garbage : {"ON", "1", "yes", " on", "onn", "off;only"}) {
    const auto parsed = parse_soft_mode(garbage);
    expect_error(parsed, "VERBENA_SOFTDEV");
    expect_error(parsed, std::string("'") + garbage + "'");
    EXPECT_EQ(parsed.error().kind(), error_kind::invalid_argument);
  }
}

TEST(merge_lists, puts_hardware_first) {
  const provider adapter = hardware();
  EXPECT_EQ(names(merge_lists(list_devices(adapter).value(), soft_list())),
            "system:mlx5_0 soft:soft0 ");
  EXPECT_EQ(names(merge_lists({}, soft_list())), "soft:soft0 ");
  EXPECT_EQ(names(merge_lists(list_devices(adapter).value(), {})), "system:mlx5_0 ");
}

TEST(merge_lists, device_of_both_lists_appears_once) {
  // With a preloaded drop-in, libibverbs lists the software device too.
  provider both = *soft_provider().value();
  both.origin = provider_origin::system;
  EXPECT_EQ(names(merge_lists(list_devices(both).value(), soft_list())), "soft:soft0 ");
}

TEST(merge_lists, devices_of_one_name_and_different_guids_are_two) {
  provider other = *soft_provider().value();
  other.origin = provider_origin::system;
  other.verbs.get_device_guid.set(&hardware_guid);
  EXPECT_EQ(names(merge_lists(list_devices(other).value(), soft_list())),
            "system:soft0 soft:soft0 ");
}

TEST(open_best, prefers_hardware_with_an_active_port) {
  const provider adapter = hardware();
  const auto chosen = open_best(merge_lists(list_devices(adapter).value(), soft_list())).value();
  EXPECT_EQ(chosen.opened.name(), "mlx5_0");
  EXPECT_EQ(chosen.opened.provider().origin, provider_origin::system);
  EXPECT_EQ(chosen.warning, "");
}

TEST(open_best, inactive_adapter_falls_back_to_soft0_with_warning) {
  provider adapter = hardware();
  adapter.verbs.query_port.set(&port_down);
  const auto chosen = open_best(merge_lists(list_devices(adapter).value(), soft_list())).value();
  EXPECT_EQ(chosen.opened.name(), "soft0");
  expect_has(chosen.warning, "using soft0: mlx5_0 has no ACTIVE port");
  expect_has(chosen.warning, "devices::hardware_only");
}

TEST(open_best, unopenable_adapter_falls_back_to_soft0_with_warning) {
  provider adapter = hardware();
  adapter.verbs.open_device.set(&no_permission);
  const auto chosen = open_best(merge_lists(list_devices(adapter).value(), soft_list())).value();
  EXPECT_EQ(chosen.opened.name(), "soft0");
  expect_has(chosen.warning, "Permission denied");
}

TEST(open_best, without_hardware_warns_that_soft0_is_used) {
  const auto chosen = open_best(soft_list()).value();
  EXPECT_EQ(chosen.opened.name(), "soft0");
  expect_has(chosen.warning, "using soft0: ");
}

TEST(open_best, hardware_only_refuses_the_software_device) {
  const auto none = open_best(soft_list(), devices::hardware_only);
  expect_error(none, "there is no RDMA hardware");
  EXPECT_EQ(none.error().kind(), error_kind::unavailable);
  EXPECT_EQ(none.error().code(), ENODEV);
}

TEST(open_best, hardware_only_prefers_an_inactive_adapter_to_soft0) {
  provider adapter = hardware();
  adapter.verbs.query_port.set(&port_down);
  const auto chosen =
      open_best(merge_lists(list_devices(adapter).value(), soft_list()), devices::hardware_only)
          .value();
  EXPECT_EQ(chosen.opened.name(), "mlx5_0");
  expect_has(chosen.warning, "mlx5_0 has no ACTIVE port");
}

TEST(open_best, hardware_only_reports_why_an_adapter_cannot_be_opened) {
  provider adapter = hardware();
  adapter.verbs.open_device.set(&no_permission);
  expect_error(
      open_best(merge_lists(list_devices(adapter).value(), soft_list()), devices::hardware_only),
      "Permission denied");
}

// rxe and siw do not have a parent device in sysfs.
TEST(open_best, hardware_only_refuses_software_devices_of_the_kernel) {
  const provider adapter = hardware();
  const auto folder =
      std::filesystem::temp_directory_path() / ("verbena-rxe-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  ibv_device native = *soft_list().at(0).native();
  std::snprintf(native.ibdev_path, sizeof native.ibdev_path, "%s", folder.c_str());
  const std::vector list = {device::borrow(&native, adapter, nullptr)};
  expect_error(open_best(list, devices::hardware_only), "there is no RDMA hardware");
  std::filesystem::create_directories(folder / "device");
  const auto chosen = open_best(list, devices::hardware_only);
  std::filesystem::remove_all(folder);
  // soft0 refuses to open a copy of its ibv_device; the error shows that open_best() tried it.
  expect_error(chosen, "ibv_open_device");
}

// The kernel lists software devices and adapters in the order of their registration.
TEST(open_best, prefers_an_active_adapter_to_an_active_software_device_before_it) {
  const folder_of_software software;
  const provider kernel = rxe();
  const provider adapter = hardware();
  ibv_device native = *soft_list().at(0).native();
  software.set(native);
  std::vector<device> list = {device::borrow(&native, kernel, nullptr)};
  list.push_back(list_devices(adapter).value().at(0));
  const auto chosen = open_best(list).value();
  EXPECT_EQ(chosen.opened.name(), "mlx5_0");
  EXPECT_EQ(chosen.warning, "");
}

TEST(open_best, prefers_a_software_device_of_the_kernel_to_soft0_with_warning) {
  const folder_of_software software;
  const provider kernel = rxe();
  ibv_device native = *soft_list().at(0).native();
  software.set(native);
  std::vector<device> list = {device::borrow(&native, kernel, nullptr)};
  list.push_back(soft_list().at(0));
  const auto chosen = open_best(list).value();
  EXPECT_EQ(chosen.opened.name(), "rxe0");
  expect_has(chosen.warning, "using rxe0: ");
}

TEST(open_best, inactive_adapter_falls_back_to_a_software_device_of_the_kernel_with_warning) {
  const folder_of_software software;
  const provider kernel = rxe();
  provider adapter = hardware();
  adapter.verbs.query_port.set(&port_down);
  ibv_device native = *soft_list().at(0).native();
  software.set(native);
  std::vector<device> list = {device::borrow(&native, kernel, nullptr)};
  list.push_back(list_devices(adapter).value().at(0));
  const auto chosen = open_best(list).value();
  EXPECT_EQ(chosen.opened.name(), "rxe0");
  expect_has(chosen.warning, "using rxe0: mlx5_0 has no ACTIVE port");
}

// parity: ibverbs-rs-5, ibverbs-20
TEST(open_best, inactive_adapter_is_opened_without_soft0) {
  provider adapter = hardware();
  adapter.verbs.query_port.set(&port_down);
  EXPECT_EQ(open_best(list_devices(adapter).value()).value().opened.name(), "mlx5_0");
}

TEST(open_best, adapter_with_failing_query_is_skipped) {
  provider adapter = hardware();
  adapter.verbs.query_device.set([](ibv_context*, ibv_device_attr*) { return EIO; });
  EXPECT_EQ(
      open_best(merge_lists(list_devices(adapter).value(), soft_list())).value().opened.name(),
      "soft0");
}

TEST(open_best, without_devices_returns_the_reason) {
  provider adapter = hardware();
  adapter.verbs.open_device.set(&no_permission);
  expect_error(open_best(list_devices(adapter).value()), "ibv_open_device on mlx5_0 failed");
  const auto none = open_best({});
  expect_error(none, "there is no RDMA device");
  EXPECT_EQ(none.error().kind(), error_kind::unavailable);
  EXPECT_EQ(none.error().code(), ENODEV);
}

TEST(open_named, opens_by_name) {
  const provider adapter = hardware();
  const auto devices = merge_lists(list_devices(adapter).value(), soft_list());
  EXPECT_EQ(open_named(devices, "soft0").value().name(), "soft0");
  EXPECT_EQ(open_named(devices, "mlx5_0").value().name(), "mlx5_0");
}

TEST(open_named, unknown_name_lists_the_devices) {
  const provider adapter = hardware();
  const auto devices = merge_lists(list_devices(adapter).value(), soft_list());
  const auto none = open_named(devices, "soft");
  expect_error(none, "open_device on soft failed: No such device");
  expect_error(none, "the devices are: mlx5_0, soft0");
  EXPECT_EQ(none.error().kind(), error_kind::unavailable);
  expect_error(open_named({}, "soft0"), "there is no RDMA device");
}

}  // namespace
}  // namespace verbena::detail
