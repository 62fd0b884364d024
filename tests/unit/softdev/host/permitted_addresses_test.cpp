// SPDX-License-Identifier: MIT
#include "softdev/host/permitted_addresses.hpp"

#include <gtest/gtest.h>
#include <net/if.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tests/unit/softdev/descriptor_limit.hpp"

namespace verbena::softdev {
namespace {

/// An address 10.9.0.`last`.
gid_entry ipv4(std::uint8_t last, std::uint32_t interface = 0) {
  return {.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, last},
          .interface_index = interface};
}
/// An address fd00:9::`last`.
gid_entry ipv6(std::uint8_t last, std::uint32_t interface = 0) {
  gid_entry made{.gid = {0xfd, 0, 0, 9}, .interface_index = interface};
  made.gid[15] = last;
  return made;
}
/// An address fe80::`last`.
gid_entry link_local(std::uint8_t last, std::uint32_t interface) {
  gid_entry made{.gid = {0xfe, 0x80}, .interface_index = interface};
  made.gid[15] = last;
  return made;
}

TEST(permitted_addresses, list_orders_the_addresses) {
  const std::uint32_t loopback = if_nametoindex("lo");
  const gid_entry local{.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1},
                        .interface_index = loopback};
  const std::vector known{ipv4(1), ipv4(9), ipv4(2), ipv4(3, loopback), ipv4(8), local};
  auto sorted = known;
  order_by_list(sorted, {});
  EXPECT_EQ(sorted, known);
  order_by_list(sorted, {"no-such-interface", "10.9.0.2", "lo", "10.9.0.8/31"});
  EXPECT_EQ(sorted, (std::vector{ipv4(2), ipv4(3, loopback), ipv4(9), ipv4(8), ipv4(1), local}));
}

TEST(permitted_addresses, without_a_list_all_addresses_of_the_table_receive) {
  gid_table table(std::vector{link_local(1, 7), ipv4(1), ipv6(1)});
  permitted_addresses all({}, table);
  EXPECT_TRUE(all.permits(ipv4(9)));
  EXPECT_TRUE(all.receives(ipv4(1).gid, 7));
  EXPECT_FALSE(all.receives(ipv4(2).gid, 7));
  EXPECT_FALSE(all.receives(ipv4(255).gid, 7)) << "a broadcast address";
  EXPECT_TRUE(all.receives(ipv6(1).gid, 7));
  EXPECT_TRUE(all.receives(link_local(1, 7).gid, 7));
  EXPECT_FALSE(all.receives(ipv6(2).gid, 7));
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

TEST(permitted_addresses, list_contains_prefixes) {
  gid_table table(std::vector{ipv4(1), ipv6(1)});
  permitted_addresses some({"10.9.0.0/29", "fd00:9::/125", "fd00:a::1"}, table);
  for (const std::uint8_t inside : std::array<std::uint8_t, 3>{0, 1, 7}) {
    EXPECT_TRUE(some.contains(ipv4(inside).gid)) << int{inside};
    EXPECT_TRUE(some.contains(ipv6(inside).gid)) << int{inside};
  }
  for (const std::uint8_t outside : std::array<std::uint8_t, 2>{8, 255}) {
    EXPECT_FALSE(some.contains(ipv4(outside).gid)) << int{outside};
    EXPECT_FALSE(some.contains(ipv6(outside).gid)) << int{outside};
  }
  EXPECT_FALSE(some.contains(link_local(1, 1).gid));
  EXPECT_TRUE(some.receives(ipv4(1).gid, 7)) << "as with an address, at each interface";
  EXPECT_TRUE(some.receives(ipv6(1).gid, 7));
  permitted_addresses everything({"::/0"}, table);
  EXPECT_TRUE(everything.contains(ipv6(9).gid));
  permitted_addresses all_ipv4({"0.0.0.0/0"}, table);
  EXPECT_TRUE(all_ipv4.contains(ipv4(9).gid));
  EXPECT_FALSE(all_ipv4.contains(ipv6(9).gid));
}

TEST(permitted_addresses, prefix_has_a_length_that_the_address_has_room_for) {
  for (const char* const wrong : {"", "/", "10.9.0.0/", "10.9.0.0/33", "10.9.0.0/-1", "10.9.0/8",
                                  "fd00::/129", "fd00::/6x", "fd00::/ 64", "eth0", "fe80::1%eth0"})
    EXPECT_FALSE(address_prefix::from_text(wrong)) << wrong;
  EXPECT_EQ(address_prefix::from_text("10.9.0.3/32"), address_prefix::from_text("10.9.0.3"));
  EXPECT_EQ(address_prefix::from_text("fd00::/128"), address_prefix::from_text("fd00::"));
  EXPECT_EQ(address_prefix::from_text("10.9.0.0/8")->bits, 104U);
}

TEST(permitted_addresses, interface_of_an_address_is_that_of_its_entry) {
  gid_table table(std::vector{link_local(1, 3), link_local(2, 4), ipv6(1, 5)});
  const permitted_addresses all({}, table);
  EXPECT_EQ(all.interface_of(link_local(2, 0).gid), 4U);
  EXPECT_EQ(all.interface_of(link_local(9, 0).gid), 0U);
  EXPECT_EQ(all.interface_of(ipv6(1).gid), 5U);
}

TEST(permitted_addresses, groups_are_joined_at_interfaces_with_permitted_addresses) {
  gid_table table(std::vector{ipv4(1, 3), ipv4(2, 3), ipv4(3, 4), ipv6(1, 5), link_local(1, 3),
                              ipv4(9, wire::loopback_interface)});
  permitted_addresses all({}, table);
  EXPECT_EQ(all.interfaces_for_groups(true), (std::vector<std::uint32_t>{3, 4}));
  EXPECT_EQ(all.interfaces_for_groups(false), (std::vector<std::uint32_t>{5, 3}));
  EXPECT_TRUE(all.receives_groups_at(5));
  EXPECT_FALSE(all.receives_groups_at(6));
  permitted_addresses some({"10.9.0.3"}, table);
  EXPECT_EQ(some.interfaces_for_groups(true), (std::vector<std::uint32_t>{4}));
  EXPECT_TRUE(some.interfaces_for_groups(false).empty());
  EXPECT_TRUE(some.receives_groups_at(4));
  EXPECT_FALSE(some.receives_groups_at(3)) << "an interface without a permitted address";
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

TEST(permitted_addresses, interfaces_are_looked_up_again_after_a_lack_of_descriptors) {
  const std::uint32_t loopback = if_nametoindex("lo");
  gid_table table(std::vector{ipv4(3, loopback)});
  permitted_addresses some({"lo"}, table);
  {
    const descriptor_limit full(0);
    EXPECT_FALSE(some.receives(ipv4(3).gid, loopback));
  }
  EXPECT_TRUE(some.receives(ipv4(3).gid, loopback));
}

}  // namespace
}  // namespace verbena::softdev
