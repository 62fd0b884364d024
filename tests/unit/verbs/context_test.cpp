// SPDX-License-Identifier: MIT
#include "verbena/verbs/context.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "tests/unit/verbs/counting_provider.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/port_attributes.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena {
namespace {

using testing_support::counting_provider;
using testing_support::expect_error;
using testing_support::open_soft;

constexpr port_number port_1(1);

// parity: ibverbs-26
TEST(context, has_the_name_of_its_device) {
  const auto opened = open_soft();
  EXPECT_EQ(opened.name(), "soft0");
  EXPECT_GE(opened.completion_vectors(), 1U);
}

// parity: ibverbs-28
TEST(context, negative_vector_count_becomes_zero) {
  const auto opened = open_soft();
  const int before = std::exchange(opened.native()->num_comp_vectors, -1);
  EXPECT_EQ(opened.completion_vectors(), 0U);
  opened.native()->num_comp_vectors = before;
  EXPECT_EQ(opened.completion_vectors(), static_cast<unsigned>(before));
}

TEST(context, describes_the_device) {
  const auto opened = open_soft();
  const auto device = opened.query().value();
  EXPECT_FALSE(device.node_guid().is_reserved());
  EXPECT_GE(device.port_count(), 1);
  EXPECT_GT(device.max_queue_pairs(), 0);
  EXPECT_GT(device.max_memory_regions(), 0);
  EXPECT_FALSE(device.firmware_version().empty());
  const auto extended = opened.query_extended().value();
  EXPECT_EQ(extended.basic().node_guid(), device.node_guid());
  EXPECT_EQ(extended.port_count(), device.port_count());
}

TEST(context, query_errors_name_verb_and_device) {
  failing_provider failing(*soft_provider().value());
  const auto opened = open_soft(failing.get()).value();
  failing.fail_call(1, EIO);
  expect_error(opened.query(), "ibv_query_device on soft0 failed: Input/output error");
  failing.fail_call(1, EIO);
  expect_error(opened.query_extended(), "ibv_query_device_ex on soft0 failed");
}

// parity: ibverbs-38
TEST(context, extended_query_falls_back_to_the_basic_one) {
  failing_provider failing(*soft_provider().value());
  const auto opened = open_soft(failing.get()).value();
  for (const int code : {EOPNOTSUPP, ENOSYS}) {
    failing.fail_call(1, code);
    const auto extended = opened.query_extended().value();
    EXPECT_EQ(failing.failed_verb(), "ibv_query_device_ex");
    EXPECT_EQ(extended.basic().node_guid(), opened.query().value().node_guid());
    EXPECT_EQ(extended.completion_timestamp_mask(), 0U);
    EXPECT_EQ(extended.clock_khz(), 0U);
    EXPECT_EQ(extended.device_memory_bytes(), 0U);
    EXPECT_EQ(extended.packet_pacing().max_kbps, 0U);
    EXPECT_TRUE(extended.raw_packet_capabilities().empty());
    EXPECT_TRUE(extended.pci_fetch_add().empty());
    EXPECT_FALSE(extended.has_on_demand_paging());
  }
}

// parity: rrddmma-19
TEST(context, describes_ports_and_refuses_others) {
  const auto opened = open_soft();
  const auto port = opened.query_port(port_1).value();
  EXPECT_EQ(port.number(), port_1);
  EXPECT_EQ(port.state(), port_state::active);
  EXPECT_EQ(port.link_layer(), link_layer::ethernet);
  EXPECT_EQ(port.phys_state(), physical_state::link_up);
  EXPECT_NE(byte_count(port.active_mtu()), 0U);
  EXPECT_LE(port.active_mtu(), port.max_mtu());
  EXPECT_GT(port.gid_table_length(), 0U);
  for (const int number : {0, 2, 255}) {
    const auto none = opened.query_port(port_number(static_cast<std::uint8_t>(number)));
    expect_error(none, "port " + std::to_string(number) + " of soft0");
    expect_error(none, "the device has 1 port, counted from 1");
  }
}

TEST(context, error_of_removed_device_names_the_cause) {
  failing_provider failing(*soft_provider().value());
  const auto opened = open_soft(failing.get()).value();
  failing.fail_call(1, ENODEV);
  expect_error(opened.query_port(port_1), "the device was removed or has failed");
}

// parity: rrddmma-28
TEST(context, gid_table_and_single_queries_agree) {
  const auto opened = open_soft();
  const auto table = opened.gid_table().value();
  ASSERT_FALSE(table.empty());
  for (const auto& entry : table) {
    EXPECT_EQ(opened.query_gid(entry.port, entry.index).value(), entry);
    EXPECT_FALSE(entry.gid.is_zero());
    EXPECT_EQ(entry.type, gid_type::roce_v2);
  }
  EXPECT_EQ(table.front().index, gid_index(0));
  EXPECT_TRUE(table.front().gid.is_link_local());
}

// parity: ibverbs-54
TEST(context, gid_errors_name_index_and_port) {
  const auto opened = open_soft();
  const auto length = opened.query_port(port_1).value().gid_table_length();
  ASSERT_LT(length, 255U);
  expect_error(opened.query_gid(port_1, gid_index(static_cast<std::uint8_t>(length))),
               "GID " + std::to_string(length) + " of port 1 of soft0");
  expect_error(opened.query_gid(port_1, gid_index(255)),
               "index 255 is outside the table of length " + std::to_string(length));
  expect_error(opened.query_gid(port_number(9), gid_index(0)), "the device has 1 port");
  const auto last = static_cast<std::uint8_t>(length - 1);
  ASSERT_LT(opened.gid_table().value().size(), length);
  expect_error(opened.query_gid(port_1, gid_index(last)), "this entry of the table is empty");
}

TEST(context, gid_table_errors_name_the_verb) {
  failing_provider failing(*soft_provider().value());
  const auto opened = open_soft(failing.get()).value();
  failing.fail_verb("ibv_query_device", EIO);
  expect_error(opened.gid_table(), "ibv_query_device on soft0");
  failing.fail_verb("ibv_query_port", EIO);
  expect_error(opened.gid_table(), "ibv_query_port on port 1 of soft0");
  failing.fail_verb("_ibv_query_gid_table", EACCES);
  expect_error(opened.gid_table(), "ibv_query_gid_table on soft0 failed: Permission denied");
}

ssize_t wide_table(ibv_context* /*context*/, ibv_gid_entry* entries, std::size_t capacity,
                   std::uint32_t /*flags*/, std::size_t entry_size) {
  EXPECT_GE(capacity, 3U);
  EXPECT_EQ(entry_size, sizeof(ibv_gid_entry));
  entries[0] = {.gid = {}, .gid_index = 300, .port_num = 1, .gid_type = 2, .ndev_ifindex = 0};
  entries[1] = {.gid = {}, .gid_index = 255, .port_num = 1, .gid_type = 9, .ndev_ifindex = 5};
  entries[2] = {.gid = {}, .gid_index = 1, .port_num = 256, .gid_type = 2, .ndev_ifindex = 0};
  return 3;
}

TEST(context, gid_tables_are_read_with_an_older_library) {
  provider older = *soft_provider().value();
  older.verbs.query_gid_table.set(nullptr);
  older.verbs.query_gid_ex.set(nullptr);
  const auto table = open_soft(older).value().gid_table().value();
  const auto expected = open_soft().gid_table().value();
  ASSERT_EQ(table.size(), expected.size());
  for (std::size_t i = 0; i < table.size(); ++i) EXPECT_EQ(table[i].gid, expected[i].gid);
  EXPECT_EQ(open_soft(older).value().query_gid(port_1, table[0].index).value(), table[0]);
}

// parity: ibverbs-49
TEST(context, gid_table_omits_entries_beyond_8_bits) {
  provider changed = *soft_provider().value();
  changed.verbs.query_gid_table.set(&wide_table);
  const auto table = open_soft(changed).value().gid_table().value();
  ASSERT_EQ(table.size(), 1U);
  EXPECT_EQ(table[0].index, gid_index(255));
  EXPECT_EQ(to_string(table[0].type), "unknown (9)");
  EXPECT_EQ(table[0].interface_index, 5U);
}

// parity: ibverbs-57
TEST(context, routable_gid_follows_the_rule) {
  const auto opened = open_soft();
  const auto chosen = opened.routable_gid(port_1).value();
  EXPECT_EQ(chosen, choose_routable(opened.gid_table().value()));
  EXPECT_TRUE(chosen.gid.is_ipv4_mapped());
  const auto none = opened.routable_gid(port_number(250));
  expect_error(none, "port 250 of soft0");
  expect_error(none, "the device has 1 port");
  EXPECT_EQ(none.error().kind(), error_kind::unavailable);
}

// parity: ibverbs-57, rrddmma-30
TEST(context, routable_gid_of_port_without_gids_is_unavailable) {
  provider changed = *soft_provider().value();
  changed.verbs.query_gid_table.set([](ibv_context*, ibv_gid_entry*, std::size_t, std::uint32_t,
                                       std::size_t) { return ssize_t{0}; });
  expect_error(open_soft(changed).value().routable_gid(port_1), "GID table is empty");
}

TEST(context, has_one_full_membership_partition_key) {
  const auto opened = open_soft();
  EXPECT_EQ(opened.query_pkey(port_1, 0).value(), partition_key(0xffff));
  const auto none = opened.query_pkey(port_1, 40000);
  expect_error(none, "P_Key 40000 of port 1 of soft0");
  expect_error(none, "index 40000 is outside the table of length 1");
  expect_error(opened.query_pkey(port_number(3), 0), "the device has 1 port");
}

TEST(context, allocate_pd_error_names_the_limit) {
  failing_provider failing(*soft_provider().value());
  const auto opened = open_soft(failing.get()).value();
  failing.fail_call(1, ENOMEM);
  expect_error(opened.allocate_pd(), "ibv_alloc_pd on soft0 failed: Cannot allocate memory");
  failing.fail_call(1, ENOMEM);
  expect_error(opened.allocate_pd(), "protection domains");
  failing.fail_call(1, EIO);
  expect_error(opened.allocate_pd(), "the device was removed or has failed");
}

// parity: ibverbs-rs-4, ibverbs-23, rrddmma-25
TEST(context, copies_share_the_device) {
  counting_provider counting(*soft_provider().value());
  std::optional<context> first = open_soft(counting.get()).value();
  {
    const context second = *first;
    EXPECT_EQ(second.native(), first->native());
    first.reset();
    EXPECT_TRUE(counting.is_live("ibv_open_device"));
    EXPECT_TRUE(second.query().has_value());
  }
  EXPECT_EQ(counting.live(), "");
}

// parity: rrddmma-26
TEST(context, close_of_shared_context_returns_it) {
  counting_provider counting(*soft_provider().value());
  auto opened = open_soft(counting.get()).value();
  {
    const auto pd = opened.allocate_pd().value();
    auto refused = std::move(opened).close();
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), EBUSY);
    expect_error(refused, "the verb was not called: 1 other handles");
    opened = std::move(refused).object();
  }
  EXPECT_TRUE(opened.query().has_value());
  EXPECT_TRUE(std::move(opened).close().has_value());
  EXPECT_EQ(counting.live(), "");
}

TEST(context, adopted_with_take_is_closed) {
  counting_provider counting(*soft_provider().value());
  const auto devices = list_devices(counting.get()).value();
  const auto& verbs = counting.get().verbs;
  {
    const auto adopted = context::adopt(verbs.open_device(devices.front().native()), counting.get(),
                                        ownership::take);
    EXPECT_EQ(adopted.name(), "soft0");
    EXPECT_TRUE(adopted.query_port(port_1).has_value());
  }
  EXPECT_FALSE(counting.is_live("ibv_open_device"));
}

// parity: ibverbs-29
TEST(context, borrowed_context_is_not_closed_and_keeps_owner) {
  counting_provider counting(*soft_provider().value());
  const auto owner = open_soft(counting.get()).value();
  auto keeper = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = keeper;
  {
    const auto borrowed = context::borrow(owner.native(), counting.get(), std::move(keeper));
    const auto pd = borrowed.allocate_pd().value();
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
  {
    const auto again = context::adopt(owner.native(), counting.get(), ownership::borrow);
  }
  EXPECT_TRUE(counting.is_live("ibv_open_device"));
  EXPECT_TRUE(owner.query().has_value());
}

// parity: ibverbs-27, rrddmma-6
TEST(context, raw_verbs_take_the_native_context) {
  const auto opened = open_soft();
  ibv_device_attr attributes{};
  EXPECT_EQ(opened.provider().verbs.query_device(opened.native(), &attributes), 0);
  EXPECT_EQ(attributes.phys_port_cnt, 1);
}

TEST(context_death, use_of_moved_from_context_aborts) {
  auto opened = open_soft();
  const auto other = std::move(opened);
  // NOLINTBEGIN(bugprone-use-after-move,*.Move): that is what is tested
  EXPECT_DEATH(static_cast<void>(opened.native()), "a moved-from context was used");
  EXPECT_DEATH(static_cast<void>(opened.name()), "a moved-from context was used");
  EXPECT_DEATH(static_cast<void>(opened.query()), "a moved-from context was used");
  EXPECT_DEATH(static_cast<void>(opened.allocate_pd()), "a moved-from context was used");
  EXPECT_DEATH(static_cast<void>(std::move(opened).close()), "a moved-from context was used");
  // NOLINTEND(bugprone-use-after-move,*.Move)
}

TEST(context_death, use_of_closed_context_aborts) {
  auto opened = open_soft();
  ASSERT_TRUE(std::move(opened).close().has_value());
  EXPECT_DEATH(static_cast<void>(opened.query()),  // NOLINT(bugprone-use-after-move,*.Move)
               "a moved-from context was used");
}

TEST(context_death, adopt_of_nullptr_aborts) {
  EXPECT_DEATH(
      static_cast<void>(context::adopt(nullptr, *soft_provider().value(), ownership::borrow)),
      "with a null pointer");
}

}  // namespace
}  // namespace verbena
