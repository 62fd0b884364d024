// SPDX-License-Identifier: MIT
#include "verbena/verbs/device.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena {
namespace {

using testing_support::expect_error;

device soft0(const provider& from) {
  for (auto& each : list_devices(from).value())
    if (each.name() == "soft0") return each;
  throw std::runtime_error("soft0 is not listed");
}
device soft0() { return soft0(*soft_provider().value()); }

// parity: ibverbs-10, ibverbs-12
TEST(device, soft0_has_name_guid_transport_and_origin) {
  const auto found = soft0();
  EXPECT_EQ(found.name(), "soft0");
  EXPECT_FALSE(found.guid().is_reserved());
  EXPECT_EQ(found.transport(), transport_type::infiniband) << "RoCE adapters say InfiniBand";
  EXPECT_EQ(found.origin(), provider_origin::soft);
  EXPECT_EQ(to_string(found), "soft0 (InfiniBand, " + to_string(found.guid()) + ", soft)");
  EXPECT_EQ(&found.provider(), soft_provider().value());
}

TEST(device, guid_is_that_of_the_open_device) {
  const auto found = soft0();
  const auto opened = found.open().value();
  EXPECT_EQ(opened.name(), "soft0");
  EXPECT_EQ(opened.native()->device, found.native());
  EXPECT_EQ(&opened.provider(), &found.provider());
}

// parity: ibverbs-3
TEST(device, outlives_the_list_that_it_came_from) {
  auto devices = list_devices(*soft_provider().value()).value();
  ASSERT_FALSE(devices.empty());
  const device copy = devices.front();
  devices.clear();
  EXPECT_EQ(copy.name(), "soft0");
  EXPECT_TRUE(copy.open().has_value());
}

TEST(device, moved_from_device_is_usable) {
  auto first = soft0();
  const auto second = std::move(first);  // NOLINT(performance-move-const-arg): moving copies
  // NOLINTNEXTLINE(bugprone-use-after-move,*.Move): moving copies
  EXPECT_EQ(first.name(), second.name());
}

// parity: ibverbs-14
TEST(device, raw_verbs_take_the_native_device) {
  const auto found = soft0();
  EXPECT_STREQ(found.provider().verbs.get_device_name(found.native()), "soft0");
}

TEST(device, open_error_is_explained) {
  failing_provider failing(*soft_provider().value());
  const auto found = soft0(failing.get());
  failing.fail_call(1, EACCES);
  expect_error(found.open(), "ibv_open_device on soft0 failed: Permission denied (errno 13)");
  for (const auto& [code, words] :
       {std::pair{EACCES, "/dev/infiniband/uverbs*"}, std::pair{EPERM, "/dev/infiniband/uverbs*"},
        std::pair{ENODEV, "the device was removed"},
        std::pair{ENOENT, "has no access to the device"}, std::pair{EMFILE, "ulimit -n"},
        std::pair{ENOMEM, "hca_handle"}}) {
    failing.fail_call(1, code);
    expect_error(found.open(), words);
  }
  failing.fail_call(0, 0);
  EXPECT_TRUE(found.open().has_value());
}

int index_of_device = 3;

// parity: ibverbs-8, ibverbs-9, ibverbs-13
TEST(device, index_and_guid_are_optional) {
  provider changed = *soft_provider().value();
  changed.verbs.get_device_index.set([](ibv_device*) { return index_of_device; });
  changed.verbs.get_device_guid.set([](ibv_device*) { return __be64{0}; });
  changed.verbs.get_device_name.set([](ibv_device*) -> const char* { return nullptr; });
  const auto found = device::borrow(soft0().native(), changed, nullptr);
  EXPECT_EQ(found.index(), 3U);
  index_of_device = -1;
  EXPECT_EQ(found.index(), std::nullopt);
  changed.verbs.get_device_index.set(nullptr);
  EXPECT_EQ(found.index(), std::nullopt) << "an old libibverbs does not have the function";
  EXPECT_TRUE(found.guid().is_reserved());
  EXPECT_EQ(found.name(), "");
  EXPECT_EQ(to_string(found), " (InfiniBand, soft)");
}

// parity: ibverbs-tests-39
TEST(transport_type, values_are_those_of_verbs) {
  const std::array native{IBV_TRANSPORT_UNKNOWN,   IBV_TRANSPORT_IB,
                          IBV_TRANSPORT_IWARP,     IBV_TRANSPORT_USNIC,
                          IBV_TRANSPORT_USNIC_UDP, IBV_TRANSPORT_UNSPECIFIED};
  const std::array typed{transport_type::unknown,   transport_type::infiniband,
                         transport_type::iwarp,     transport_type::usnic,
                         transport_type::usnic_udp, transport_type::unspecified};
  for (std::size_t i = 0; i < native.size(); ++i)
    EXPECT_EQ(static_cast<transport_type>(native[i]), typed[i]);
}

// parity: ibverbs-tests-39, ibverbs-11
TEST(transport_type, unknown_values_are_kept_and_print) {
  std::string names;
  for (int i = -1; i <= 5; ++i) names += to_string(static_cast<transport_type>(i)) + ";";
  EXPECT_EQ(names, "unknown;InfiniBand;iWARP;usNIC;usNIC UDP;unspecified;unknown (5);");
}

TEST(device_death, borrow_of_nullptr_stops_the_program) {
  EXPECT_DEATH(static_cast<void>(device::borrow(nullptr, *soft_provider().value(), nullptr)),
               "device::borrow\\(\\) with a null pointer");
}

}  // namespace
}  // namespace verbena
