// SPDX-License-Identifier: MIT
#include "verbena/verbs/gid_table.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <net/if.h>

#include <vector>

namespace verbena {
namespace {

// Not all versions of the headers have these names.
static_assert(static_cast<int>(gid_type::infiniband) == IBV_GID_TYPE_IB);
static_assert(static_cast<int>(gid_type::roce_v1) == IBV_GID_TYPE_ROCE_V1);
static_assert(static_cast<int>(gid_type::roce_v2) == IBV_GID_TYPE_ROCE_V2);

gid_entry entry(std::uint8_t index, const char* address, gid_type type) {
  return {.gid = parse_gid(address).value(),
          .index = gid_index(index),
          .port = port_number(1),
          .type = type,
          .interface_index = 0};
}

int chosen(const std::vector<gid_entry>& entries) {
  const auto best = choose_routable(entries);
  return best ? best->index.value() : -1;
}

// parity: ibverbs-55, rrddmma-29
TEST(choose_routable, prefers_roce_v2_with_an_ipv4_address) {
  EXPECT_EQ(
      chosen({entry(0, "fe80::1", gid_type::roce_v1), entry(1, "fe80::1", gid_type::roce_v2),
              entry(2, "192.0.2.1", gid_type::roce_v1), entry(3, "2001:db8::1", gid_type::roce_v2),
              entry(4, "192.0.2.1", gid_type::roce_v2), entry(5, "192.0.2.2", gid_type::roce_v2)}),
      4);
}

TEST(choose_routable, prefers_routable_addresses_to_loopback) {
  EXPECT_EQ(
      chosen({entry(0, "127.0.0.1", gid_type::roce_v2), entry(1, "192.0.2.1", gid_type::roce_v2)}),
      1);
  EXPECT_EQ(chosen({entry(0, "127.0.0.1", gid_type::roce_v2),
                    entry(1, "2001:db8::1", gid_type::roce_v2)}),
            1);
  EXPECT_EQ(
      chosen({entry(0, "fe80::1", gid_type::roce_v2), entry(1, "127.0.0.1", gid_type::roce_v2)}),
      1);
  EXPECT_EQ(chosen({entry(0, "fe80::1", gid_type::roce_v2), entry(1, "::1", gid_type::roce_v2)}),
            0);
}

// parity: ibverbs-56, rrddmma-29
TEST(choose_routable, returns_the_first_entry_otherwise) {
  EXPECT_EQ(chosen({entry(3, "fe80::1", gid_type::infiniband),
                    entry(4, "fe80::2", gid_type::infiniband)}),
            3);
  EXPECT_EQ(chosen({}), -1);
}

// parity: ibverbs-tests-40, ibverbs-49, rrddmma-33
TEST(gid_type, unknown_values_are_kept_and_print) {
  EXPECT_EQ(to_string(gid_type::infiniband), "InfiniBand");
  EXPECT_EQ(to_string(gid_type::roce_v1), "RoCE v1");
  EXPECT_EQ(to_string(gid_type::roce_v2), "RoCE v2");
  EXPECT_EQ(to_string(static_cast<gid_type>(7)), "unknown (7)");
}

// parity: ibverbs-51
TEST(gid_entry, interface_name_is_nullopt_without_interface) {
  auto found = entry(2, "127.0.0.1", gid_type::roce_v2);
  EXPECT_EQ(found.interface_name(), std::nullopt);
  EXPECT_EQ(to_string(found), "port 1 GID 2: ::ffff:127.0.0.1 (RoCE v2)");
  found.interface_index = ::if_nametoindex("lo");
  ASSERT_NE(found.interface_index, 0U);
  EXPECT_EQ(found.interface_name(), "lo");
  EXPECT_EQ(to_string(found), "port 1 GID 2: ::ffff:127.0.0.1 (RoCE v2, lo)");
  found.interface_index = 0x7fffffff;
  EXPECT_EQ(found.interface_name(), std::nullopt);
}

}  // namespace
}  // namespace verbena
