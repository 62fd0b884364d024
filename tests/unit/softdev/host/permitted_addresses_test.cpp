// SPDX-License-Identifier: MIT
#include "softdev/host/permitted_addresses.hpp"

#include <gtest/gtest.h>
#include <net/if.h>

#include <cstdint>
#include <vector>

namespace verbena::softdev {
namespace {

/// An address 10.9.0.`last`.
gid_entry ipv4(std::uint8_t last, std::uint32_t interface = 0) {
  return {.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, last},
          .interface_index = interface};
}
const gid_entry link_local{.gid = {0xfe, 0x80, 1}, .interface_index = 0};

TEST(permitted_addresses, without_a_list_all_ipv4_addresses_of_the_table_receive) {
  gid_table table(std::vector{link_local, ipv4(1)});
  permitted_addresses all({}, table);
  EXPECT_TRUE(all.permits(ipv4(9)));
  EXPECT_TRUE(all.receives(ipv4(1).gid, 7));
  EXPECT_FALSE(all.receives(ipv4(2).gid, 7));
  EXPECT_FALSE(all.receives(ipv4(255).gid, 7)) << "a broadcast address";
  EXPECT_FALSE(all.receives(link_local.gid, 7)) << "it has no socket";
  EXPECT_FALSE(all.receives({}, 7)) << "an empty entry of the table";
}

TEST(permitted_addresses, list_contains_addresses_and_interfaces) {
  const std::uint32_t loopback = if_nametoindex("lo");
  ASSERT_NE(loopback, 0U);
  gid_table table(std::vector{ipv4(1), ipv4(2), ipv4(3, loopback)});
  permitted_addresses some({"10.9.0.1", "lo", "no-such-interface"}, table);
  EXPECT_TRUE(some.permits(ipv4(1)));
  EXPECT_FALSE(some.permits(ipv4(2)));
  EXPECT_TRUE(some.permits(ipv4(3, loopback)));
  EXPECT_TRUE(some.receives(ipv4(1).gid, 7));
  EXPECT_FALSE(some.receives(ipv4(2).gid, 7));
  EXPECT_TRUE(some.receives(ipv4(3).gid, loopback));
  EXPECT_FALSE(some.receives(ipv4(3).gid, 7)) << "an interface that the list does not contain";
}

TEST(permitted_addresses, changes_of_the_table_are_followed) {
  gid_table table(std::vector{ipv4(1)});
  permitted_addresses all({}, table);
  EXPECT_TRUE(all.receives(ipv4(1).gid, 7));
  table.set(std::vector{ipv4(2)});
  EXPECT_FALSE(all.receives(ipv4(1).gid, 7));
  EXPECT_TRUE(all.receives(ipv4(2).gid, 7));
  table.move();
  EXPECT_TRUE(all.receives(ipv4(2).gid, 7));
}

}  // namespace
}  // namespace verbena::softdev
