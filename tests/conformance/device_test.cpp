// SPDX-License-Identifier: MIT
// Attributes of a device are plausible, and all queries return equal values.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "tests/conformance/tested_device.hpp"
#include "tests/conformance/traffic.hpp"
#include "verbena/verbs/device_list.hpp"
#include "verbena/verbs/device_search.hpp"

namespace verbena::conformance {
namespace {

// parity: ibverbs-1
TEST(device, device_is_listed_once) {
  const auto devices = list_devices().value();
  EXPECT_EQ(std::ranges::count(devices, tested().listed.name(), &device::name), 1);
}

// parity: rrddmma-17
TEST(device, device_is_found_by_name_and_guid) {
  const auto devices = list_devices().value();
  const device& itself = tested().listed;
  EXPECT_EQ(find_by_name(devices, itself.name())->name(), itself.name());
  if (!itself.guid().is_reserved()) {
    EXPECT_EQ(find_by_guid(devices, itself.guid())->guid(), itself.guid());
  }
  for (const auto& entry : tested().context.gid_table().value())
    if (const auto name = entry.interface_name()) {
      EXPECT_TRUE(find_by_interface(devices, *name)) << *name;
    }
}

// parity: ibverbs-62
TEST(device, device_with_timestamps_has_a_clock_frequency) {
  const auto mask = tested().context.query_extended().value().completion_timestamp_mask();
  const auto first = tested().context.read_clock();
  EXPECT_EQ(first.has_value(), mask != 0);
  if (!first) {
    EXPECT_EQ(first.error().kind(), error_kind::not_supported);
    return;
  }
  EXPECT_FALSE(tested().context.read_clock().value().is_before(*first));
}

// parity: ibverbs-rs-2, ibverbs-6, rrddmma-16
TEST(device, device_opens_by_name) {
  const auto opened = open_device(tested().listed.name());
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_NE(opened->native(), nullptr);
  EXPECT_NE(opened->native(), tested().context.native()) << "open() returned an existing context";
}

// parity: rrddmma-18, ibverbs-rs-2
TEST(device, error_for_missing_device_lists_the_available_devices) {
  const auto missing = open_device("no_such_device");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind(), error_kind::unavailable);
  EXPECT_NE(missing.error().message().find(tested().listed.name()), std::string::npos)
      << missing.error().message();
}

// parity: ibverbs-tests-66, ibverbs-7
TEST(device, device_guid_is_the_same_in_list_and_query) {
  const auto attributes = tested().context.query().value();
  EXPECT_NE(attributes.node_guid(), guid());
  EXPECT_EQ(attributes.node_guid(), tested().listed.guid());
  EXPECT_NE(attributes.system_image_guid(), guid());
}

// parity: ibverbs-tests-63, ibverbs-30
TEST(device, device_limits_satisfy_the_required_minimum) {
  const auto attributes = tested().context.query().value();
  EXPECT_GE(attributes.port_count(), 1);
  EXPECT_GE(attributes.max_queue_pairs(), 16);
  EXPECT_GE(attributes.max_work_requests(), 64);
  EXPECT_GE(attributes.max_sge(), 2);
  EXPECT_GE(attributes.max_completion_queues(), 16);
  EXPECT_GE(attributes.max_completions(), 256);
  EXPECT_GE(attributes.max_memory_regions(), 16);
  EXPECT_GE(attributes.max_memory_region_bytes(), 1U << 20);
  EXPECT_GE(attributes.max_protection_domains(), 4);
  // Reads of an EFA need no resources of a queue pair.
  EXPECT_EQ(attributes.max_responder_resources() >= 1, !is_efa());
  EXPECT_EQ(attributes.max_initiator_depth() >= 1, !is_efa());
}

// parity: ibverbs-tests-64, ibverbs-35
TEST(device, extended_query_returns_the_same_attributes) {
  const auto basic = tested().context.query().value();
  const auto extended = tested().context.query_extended().value();
  EXPECT_EQ(extended.basic().node_guid(), basic.node_guid());
  EXPECT_EQ(extended.basic().max_queue_pairs(), basic.max_queue_pairs());
  EXPECT_EQ(extended.basic().max_completions(), basic.max_completions());
  EXPECT_EQ(extended.basic().atomics(), basic.atomics());
  EXPECT_EQ(extended.port_count(), basic.port_count());
}

// parity: ibverbs-tests-65
TEST(device, device_description_is_not_empty) {
  const auto attributes = tested().context.query().value();
  EXPECT_NE(to_string(tested().listed).find(tested().listed.name()), std::string::npos);
  EXPECT_FALSE(to_string(attributes).empty());
  EXPECT_FALSE(to_string(tested().context.query_extended().value()).empty());
  EXPECT_FALSE(to_string(tested().context.query_port(port_number(1)).value()).empty());
}

// parity: ibverbs-tests-67, ibverbs-308
TEST(device, native_handles_are_not_null) {
  EXPECT_NE(tested().listed.native(), nullptr);
  EXPECT_NE(tested().context.native(), nullptr);
  EXPECT_EQ(tested().context.native()->device, tested().listed.native());
  EXPECT_GE(tested().context.native()->async_fd, 0);
  const auto pd = tested().context.allocate_pd().value();
  EXPECT_EQ(pd.native()->context, tested().context.native());
  const auto queue = tested().context.create_cq(4).value();
  EXPECT_EQ(queue.native()->context, tested().context.native());
  const auto region = pd.allocate(4096, access::local_write).value();
  EXPECT_EQ(region.native()->pd, pd.native());
  EXPECT_EQ(region.native()->length, 4096U);
}

// parity: ibverbs-tests-63, ibverbs-39
TEST(port, port_is_active_and_has_an_mtu) {
  const auto port = tested().context.query_port(port_number(1)).value();
  EXPECT_EQ(port.number(), port_number(1));
  EXPECT_EQ(port.state(), port_state::active) << to_string(port);
  const auto expected = is_efa()          ? link_layer::unspecified
                        : is_infiniband() ? link_layer::infiniband
                                          : link_layer::ethernet;
  EXPECT_EQ(port.link_layer(), expected) << to_string(port);
  EXPECT_EQ(port.lid() != lid(), is_infiniband()) << to_string(port);
  EXPECT_NE(byte_count(port.max_mtu()), 0U);
  EXPECT_NE(byte_count(port.active_mtu()), 0U);
  EXPECT_LE(byte_count(port.active_mtu()), byte_count(port.max_mtu()));
  EXPECT_GE(port.gid_table_length(), 1U);
  EXPECT_GE(port.max_message_bytes(), is_efa() ? byte_count(port.max_mtu()) : 1U << 20);
}

// parity: ibverbs-40
TEST(port, query_of_nonexistent_port_is_refused) {
  EXPECT_FALSE(tested().context.query_port(port_number(0)));
  const auto ports = tested().context.query().value().port_count();
  EXPECT_FALSE(tested().context.query_port(port_number(static_cast<std::uint8_t>(ports + 1))));
}

TEST(port, port_has_a_pkey) {
  VERBENA_NEEDS(!is_iwarp(), "iWARP has no partition keys");
  const auto port = tested().context.query_port(port_number(1)).value();
  ASSERT_GE(port.pkey_table_length(), 1U);
  EXPECT_EQ(tested().context.query_pkey(port_number(1), 0).value(), partition_key(0xffff));
}

// parity: ibverbs-tests-45, ibverbs-48
TEST(gid_table, gid_table_has_unique_entries) {
  const auto entries = tested().context.gid_table().value();
  ASSERT_FALSE(entries.empty());
  std::set<std::pair<port_number, gid_index>> places;
  for (const auto& entry : entries) {
    EXPECT_TRUE(places.emplace(entry.port, entry.index).second) << to_string(entry);
    EXPECT_NE(entry.gid, gid()) << to_string(entry);
  }
}

// parity: ibverbs-tests-66, ibverbs-52
TEST(gid_table, query_of_single_entries_equals_the_table) {
  for (const auto& entry : tested().context.gid_table().value()) {
    const auto single = tested().context.query_gid(entry.port, entry.index);
    ASSERT_TRUE(single) << single.error().message();
    EXPECT_EQ(*single, entry) << to_string(*single) << " instead of " << to_string(entry);
  }
}

// parity: ibverbs-tests-66, ibverbs-50
TEST(gid_table, entries_name_their_network_interfaces) {
  VERBENA_NEEDS(is_on_ethernet(), "only GIDs of Ethernet belong to network interfaces");
  for (const auto& entry : tested().context.gid_table().value()) {
    ASSERT_NE(entry.interface_index, 0U) << to_string(entry);
    EXPECT_TRUE(entry.interface_name().has_value()) << to_string(entry);
  }
}

// parity: ibverbs-tests-82, ibverbs-55
TEST(gid_table, gid_table_has_a_routable_entry) {
  const auto chosen = tested().context.routable_gid(port_number(1));
  ASSERT_TRUE(chosen) << chosen.error().message();
  VERBENA_NEEDS(!is_iwarp(), "iWARP has no GIDs of RoCE");
  EXPECT_EQ(chosen->type, is_on_ethernet() ? gid_type::roce_v2 : gid_type::infiniband)
      << to_string(*chosen);
}

// parity: ibverbs-53
TEST(gid_table, query_of_an_empty_index_is_refused) {
  std::set<gid_index> taken;
  for (const auto& entry : tested().context.gid_table().value())
    if (entry.port == port_number(1)) taken.insert(entry.index);
  std::uint8_t empty = 0;
  while (empty < 255 && taken.contains(gid_index(empty))) ++empty;
  ASSERT_FALSE(taken.contains(gid_index(empty))) << "the GID table has no empty entry";
  EXPECT_FALSE(tested().context.query_gid(port_number(1), gid_index(empty)));
}

// parity: ibverbs-24
TEST(context, objects_keep_their_context_open) {
  auto opened = std::optional(open_device(tested().listed.name()).value());
  auto pd = std::optional(opened->allocate_pd().value());
  const auto region = pd->allocate(4096, access::local_write).value();
  auto refused = std::move(*opened).close();
  ASSERT_FALSE(refused);
  opened.emplace(std::move(refused).object());
  opened.reset();
  pd.reset();
  EXPECT_EQ(region.bytes().size(), 4096U);
  EXPECT_TRUE(region.domain().context().query());
}

// parity: ibverbs-25
TEST(context, context_closes_after_its_last_object) {
  auto opened = open_device(tested().listed.name()).value();
  auto pd = opened.allocate_pd().value();
  std::move(pd).close().value();
  std::move(opened).close().value();
}

}  // namespace
}  // namespace verbena::conformance
