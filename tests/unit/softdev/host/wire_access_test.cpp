// SPDX-License-Identifier: MIT
#include "softdev/host/wire_access.hpp"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "softdev/core/engine.hpp"
#include "softdev/ipc/clock.hpp"

namespace verbena::softdev {
namespace {

constexpr gid_bytes joined_group{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 9, 9, 1};
constexpr gid_bytes other_group{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 9, 9, 2};

std::ptrdiff_t count_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

/// A process with the wire, which has opened no socket.
class wire_access_process : public ::testing::Test {
 protected:
  wire_access_process() { access.begin(path); }

  gid_table table{std::vector<gid_entry>{}};
  wire_access access{{.on = true}, table};
  engine home{{.process_slot = 1, .clock = &monotonic_now}};
  wire::wire_path path{home, wire::port_share::open(0, 1).value(), {.process_slot = 1}};
};

/// Returns the index of an interface that can join groups; 0 if the host has only
/// the loopback interface.
std::uint32_t find_interface() {
  std::uint32_t found = 0;
  struct if_nameindex* const all = ::if_nameindex();
  for (const struct if_nameindex* each = all; each->if_index != 0 && found == 0; ++each) {
    const auto probe = wire::group_socket::open(other_group).value();
    if (each->if_index != wire::loopback_interface && probe.join(each->if_index) == 0)
      found = each->if_index;
  }
  ::if_freenameindex(all);
  return found;
}

/// Returns whether this host is a member of 239.9.9.1 (/proc/net/igmp).
bool is_member() {
  std::ifstream groups("/proc/net/igmp");
  for (std::string word; groups >> word;)
    if (word == "010909EF") return true;
  return false;
}

TEST_F(wire_access_process, groups_are_joined_at_the_interface_of_a_new_address) {
  const std::uint32_t interface = find_interface();
  if (interface == 0) GTEST_SKIP() << "no interface can join groups";
  access.join_group(joined_group);
  EXPECT_FALSE(is_member());
  const gid_entry own{.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 1},
                      .interface_index = interface};
  table.set(std::vector{own});
  access.addresses_changed();
  EXPECT_TRUE(is_member());
  access.addresses_changed();
  EXPECT_TRUE(is_member());
  access.leave_group(joined_group);
  EXPECT_FALSE(is_member());
}

TEST_F(wire_access_process, child_of_fork_is_not_a_member_of_groups) {
  access.join_group(joined_group);
  access.join_group(other_group);
  access.prepare_fork();
  const std::ptrdiff_t before = count_descriptors();
  const pid_t child = ::fork();
  if (child == 0) {
    access.abandon_after_fork();
    ::_exit(count_descriptors() == before - 2 ? 0 : 1);
  }
  access.continue_after_fork();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(count_descriptors(), before);
  access.leave_group(other_group);
  EXPECT_EQ(count_descriptors(), before - 1);
}

}  // namespace
}  // namespace verbena::softdev
