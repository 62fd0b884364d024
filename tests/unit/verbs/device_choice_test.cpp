// SPDX-License-Identifier: MIT
// Hardware is played by the software device through a provider that says `system`.
#include "src/verbs/device_choice.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena::detail {
namespace {

using testing_support::expect_error;
using testing_support::log_catcher;

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

std::vector<device> soft_list() { return list_devices(*soft_provider().value()).value(); }

std::string names(const std::vector<device>& devices) {
  std::string text;
  for (const auto& each : devices) text += to_string(each.origin()) + (":" + each.name() + " ");
  return text;
}

TEST(parse_soft_mode, takes_three_words) {
  EXPECT_EQ(parse_soft_mode(nullptr).value(), soft_mode::on);
  EXPECT_EQ(parse_soft_mode("").value(), soft_mode::on);
  EXPECT_EQ(parse_soft_mode("on").value(), soft_mode::on);
  EXPECT_EQ(parse_soft_mode("off").value(), soft_mode::off);
  EXPECT_EQ(parse_soft_mode("only").value(), soft_mode::only);
}

TEST(parse_soft_mode, refuses_anything_else_by_the_name_of_the_variable) {
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

TEST(merge_lists, what_both_know_is_listed_once) {
  // As under preload, where the system's library lists the software device too.
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
  const log_catcher log;
  const provider adapter = hardware();
  const auto opened = open_best(merge_lists(list_devices(adapter).value(), soft_list())).value();
  EXPECT_EQ(opened.name(), "mlx5_0");
  EXPECT_EQ(opened.provider().origin, provider_origin::system);
  EXPECT_EQ(log.text(), "");
}

TEST(open_best, passes_over_hardware_without_an_active_port_and_says_so) {
  const log_catcher log;
  provider adapter = hardware();
  adapter.verbs.query_port.set(&port_down);
  const auto opened = open_best(merge_lists(list_devices(adapter).value(), soft_list())).value();
  EXPECT_EQ(opened.name(), "soft0");
  EXPECT_TRUE(log.contains("soft0 is used, because mlx5_0 has no ACTIVE port")) << log.text();
}

TEST(open_best, passes_over_hardware_that_cannot_be_opened_and_says_so) {
  const log_catcher log;
  provider adapter = hardware();
  adapter.verbs.open_device.set(&no_permission);
  const auto opened = open_best(merge_lists(list_devices(adapter).value(), soft_list())).value();
  EXPECT_EQ(opened.name(), "soft0");
  EXPECT_TRUE(log.contains("Permission denied")) << log.text();
}

TEST(open_best, takes_an_inactive_port_if_there_is_nothing_better) {
  provider adapter = hardware();
  adapter.verbs.query_port.set(&port_down);
  EXPECT_EQ(open_best(list_devices(adapter).value()).value().name(), "mlx5_0");
}

TEST(open_best, an_unanswered_query_is_not_an_active_port) {
  const log_catcher log;
  provider adapter = hardware();
  adapter.verbs.query_device.set([](ibv_context*, ibv_device_attr*) { return EIO; });
  EXPECT_EQ(open_best(merge_lists(list_devices(adapter).value(), soft_list())).value().name(),
            "soft0");
}

TEST(open_best, reports_why_nothing_could_be_opened) {
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

TEST(open_named, names_what_is_there_instead) {
  const provider adapter = hardware();
  const auto devices = merge_lists(list_devices(adapter).value(), soft_list());
  const auto none = open_named(devices, "soft");
  expect_error(none, "open_device on soft failed: No such device");
  expect_error(none, "there are: mlx5_0, soft0");
  EXPECT_EQ(none.error().kind(), error_kind::unavailable);
  expect_error(open_named({}, "soft0"), "there is no RDMA device");
}

}  // namespace
}  // namespace verbena::detail
