// SPDX-License-Identifier: MIT
#include "softdev/host/persona.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "softdev/host/settings.hpp"
#include "softdev/host/soft_adapter.hpp"
#include "softdev/ipc/clock.hpp"
#include "softdev/wire/socket/udp_socket.hpp"
#include "tests/unit/softdev/descriptor_limit.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

std::array<std::uint8_t, 6> address_of(std::string_view seed) {
  return hardware_address({seed.data(), seed.size()});
}

TEST(persona, hardware_address_is_stable_per_host_and_locally_administered) {
  EXPECT_EQ(address_of("0123456789abcdef0123456789abcdef"),
            address_of("0123456789abcdef0123456789abcdef"));
  EXPECT_NE(address_of("0123456789abcdef0123456789abcdef"),
            address_of("0123456789abcdef0123456789abcdee"));
  for (const char* seed : {"", "a", "b", "host-1", "host-2"})
    EXPECT_EQ(address_of(seed)[0] & 3U, 2U) << seed;
}

TEST(persona, description_of_the_host_is_deterministic) {
  const persona first = describe_host();
  const persona second = describe_host();
  EXPECT_EQ(first.node_guid, second.node_guid);
  ASSERT_GE(first.gids.size(), 2U);
  EXPECT_LE(first.gids.size(), std::size_t{persona::gid_table_length});
  EXPECT_EQ(first.node_guid[3], 0xff);
  EXPECT_EQ(first.node_guid[4], 0xfe);
  EXPECT_EQ(first.gids[0].gid[0], 0xfe);
  EXPECT_EQ(first.gids[0].gid[1], 0x80);
  EXPECT_TRUE(std::equal(first.node_guid.begin() + 1, first.node_guid.end(),
                         first.gids[0].gid.begin() + 9));
}

TEST(persona, addresses_of_ipv4_precede_those_of_ipv6_and_link_local_ones_are_last) {
  const persona made = describe_host();
  const auto rank = [](const gid_entry& each) {
    if (wire::is_ipv4(each.gid)) return 0;
    return wire::is_link_local(each.gid) ? 2 : 1;
  };
  EXPECT_TRUE(
      std::is_sorted(made.gids.begin() + 1, made.gids.end(),
                     [&](const auto& one, const auto& other) { return rank(one) < rank(other); }));
  for (const gid_entry& each : made.gids)
    EXPECT_FALSE(each.gid ==
                 (std::array<std::uint8_t, 16>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}))
        << "::1 is no address of a host";
}

TEST(persona, list_of_the_wire_orders_the_addresses_of_each_kind) {
  const persona usual = describe_host();
  std::vector<std::string> reversed;
  for (const gid_entry& each : usual.gids)
    reversed.insert(reversed.begin(), wire::to_text(each.gid));
  const persona ordered = describe_host(persona_kind::roce, reversed);
  const auto ipv4_of = [](const persona& from) {
    std::vector<std::string> found;
    for (const gid_entry& each : from.gids)
      if (wire::is_ipv4(each.gid) && each.gid[12] != 127) found.push_back(wire::to_text(each.gid));
    return found;
  };
  auto expected = ipv4_of(usual);
  std::ranges::reverse(expected);
  EXPECT_EQ(ipv4_of(ordered), expected);
  EXPECT_EQ(ordered.gids.size(), usual.gids.size());
  EXPECT_EQ(ordered.gids[1].gid[12] == 127, expected.empty()) << "127.0.0.1 is last";
}

TEST(persona, infiniband_port_has_a_lid_and_a_gid_from_its_guid) {
  const persona first = describe_host(persona_kind::infiniband);
  EXPECT_EQ(first.node_guid, describe_host().node_guid);
  EXPECT_EQ(first.lid, describe_host(persona_kind::infiniband).lid);
  EXPECT_GT(first.lid, first.sm_lid);
  EXPECT_LE(first.lid, 0xbfff);
  ASSERT_EQ(first.gids.size(), 2U);
  EXPECT_TRUE(
      std::equal(first.node_guid.begin(), first.node_guid.end(), first.gids[0].gid.begin() + 8));
  EXPECT_LE(first.pkeys.size(), port_state::max_pkeys);
  EXPECT_EQ(describe_host().lid, 0);
}

TEST(soft_adapter, addresses_that_cannot_be_read_remain_in_the_table) {
  soft_adapter adapter(describe_host(), {});
  const gid_table::entries before = adapter.gids().all();
  {
    const descriptor_limit full(0);
    EXPECT_FALSE(describe_host().complete);
    EXPECT_EQ(adapter.next_read(), never);
    EXPECT_FALSE(adapter.refresh_gids());
    EXPECT_EQ(adapter.gids().all(), before);
    EXPECT_NE(adapter.next_read(), never);
  }
  EXPECT_FALSE(adapter.refresh_gids());
  EXPECT_EQ(adapter.gids().all(), before);
  EXPECT_EQ(adapter.next_read(), never);
}

TEST(soft_adapter, addresses_that_cannot_be_read_at_first_are_read_again) {
  std::optional<persona> incomplete;
  {
    const descriptor_limit full(0);
    incomplete = describe_host();
  }
  soft_adapter adapter(*incomplete, {});
  EXPECT_NE(adapter.next_read(), never);
  adapter.addresses_changed();
  EXPECT_EQ(adapter.next_read(), never);
}

TEST(soft_adapter, interval_between_attempts_to_read_the_addresses_doubles) {
  soft_adapter adapter(describe_host(), {});
  const descriptor_limit full(0);
  EXPECT_FALSE(adapter.refresh_gids());
  // An early attempt neither postpones the next one nor changes the interval.
  const time_ns first = adapter.next_read();
  if (monotonic_now() < first) {
    EXPECT_FALSE(adapter.refresh_gids());
    EXPECT_TRUE(adapter.next_read() == first || first <= monotonic_now());
  }
  for (time_ns interval = 200'000'000; interval <= 400'000'000; interval *= 2) {
    while (monotonic_now() < adapter.next_read()) std::this_thread::yield();
    const time_ns due = monotonic_now();
    adapter.addresses_changed();
    EXPECT_GE(adapter.next_read(), due + interval);
  }
}

TEST(soft_adapter, addresses_of_another_network_namespace_are_ignored) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can enter a network namespace here";
  soft_adapter adapter(describe_host(), {});
  const gid_table::entries before = adapter.gids().all();
  persona unread = describe_host();
  unread.complete = false;
  soft_adapter reads_again(unread, {});
  bool has_moved = false;
  bool has_changed = false;
  std::thread([&] {
    has_moved = ::unshare(CLONE_NEWNET) == 0;
    if (has_moved) has_changed = adapter.refresh_gids() || reads_again.refresh_gids();
  }).join();
  if (!has_moved) GTEST_SKIP() << "this process cannot create a network namespace";
  EXPECT_FALSE(has_changed);
  EXPECT_EQ(adapter.gids().all(), before);
  // A thread of the device's namespace still has to read them.
  EXPECT_NE(reads_again.next_read(), never);
  EXPECT_FALSE(reads_again.refresh_gids());
  EXPECT_EQ(reads_again.next_read(), never);
}

std::string logged;
void remember(log_level /*level*/, std::string_view line, void* /*user*/) { logged += line; }

template <int Which>
const char* environment(const char* name) {
  static constexpr std::array<const char*, 4> values = {nullptr, "off", "on", "only"};
  return std::string_view(name) == "VERBENA_SOFTDEV" ? values[Which] : nullptr;
}

TEST(settings, environment_decides_whether_the_device_is_listed) {
  EXPECT_EQ(read_settings(&environment<0>).listed, listing::on);
  EXPECT_EQ(read_settings(&environment<1>).listed, listing::off);
  EXPECT_EQ(read_settings(&environment<2>).listed, listing::on);
  EXPECT_EQ(read_settings(&environment<3>).listed, listing::on);
}

template <int Which>
const char* ports_variable(const char* name) {
  static constexpr std::array<const char*, 5> values = {nullptr, "4", "0", "5", "22"};
  return std::string_view(name) == "VERBENA_SOFTDEV_PORTS" ? values[Which] : nullptr;
}

TEST(settings, environment_sets_the_number_of_ports) {
  EXPECT_EQ(read_settings(&ports_variable<0>).ports, 1);
  EXPECT_EQ(read_settings(&ports_variable<1>).ports, 4);
  EXPECT_EQ(read_settings(&ports_variable<2>).ports, 1);
  EXPECT_EQ(read_settings(&ports_variable<3>).ports, 1);
  EXPECT_EQ(read_settings(&ports_variable<4>).ports, 1);
}

template <int Which>
const char* persona_variable(const char* name) {
  static constexpr std::array<const char*, 3> values = {"roce", "infiniband", ""};
  return std::string_view(name) == "VERBENA_SOFTDEV_PERSONA" ? values[Which] : nullptr;
}

// A value that no setting has, and that no earlier run of a test had.
std::string invalid;
void make_invalid() {
  static int count = 0;
  invalid = "token-ring-" + std::to_string(++count);
}
template <char Last>
const char* invalid_variable(const char* name) {
  const std::string_view text = name;
  const char* const wanted = Last == 'V' ? "VERBENA_SOFTDEV" : "VERBENA_SOFTDEV_PERSONA";
  return text == wanted ? invalid.c_str() : nullptr;
}

TEST(settings, environment_selects_the_persona) {
  EXPECT_EQ(read_settings(&persona_variable<0>).persona, persona_kind::roce);
  EXPECT_EQ(read_settings(&persona_variable<1>).persona, persona_kind::infiniband);
  EXPECT_EQ(read_settings(&persona_variable<2>).persona, persona_kind::roce);
  make_invalid();
  logged.clear();
  set_log_hook(&remember);
  EXPECT_EQ(read_settings(&invalid_variable<'P'>).persona, persona_kind::roce);
  set_log_hook(nullptr);
  EXPECT_THAT(logged, ::testing::HasSubstr(invalid));
}

/// The variables of the wire.
std::array<const char*, 4> wire_values{};
const char* wire_variable(const char* name) {
  const std::string_view text = name;
  if (text == "VERBENA_SOFTDEV_WIRE") return wire_values[0];
  if (text == "VERBENA_SOFTDEV_WIRE_PORT") return wire_values[1];
  if (text == "VERBENA_SOFTDEV_WIRE_FAULTS") return wire_values[3];
  return text == "VERBENA_SOFTDEV_PATH" ? wire_values[2] : nullptr;
}
wire_setting wire_of(const char* wire, const char* port = nullptr, const char* path = nullptr,
                     const char* faults = nullptr) {
  wire_values = {wire, port, path, faults};
  return read_settings(&wire_variable).wire;
}

TEST(settings, wire_is_off_unless_the_environment_says_so) {
  for (const char* const off : {static_cast<const char*>(nullptr), "", "off"})
    EXPECT_FALSE(wire_of(off).on);
  EXPECT_TRUE(wire_of("on").on);
  EXPECT_TRUE(wire_of("on").only.empty());
  EXPECT_EQ(wire_of("on").port, 4791);
  EXPECT_FALSE(wire_of("on").forced);
}

TEST(settings, wire_has_a_list_a_port_and_a_path) {
  const wire_setting listed = wire_of("10.9.0.1,,eth1,", "14791", "wire");
  EXPECT_TRUE(listed.on);
  EXPECT_THAT(listed.only, ::testing::ElementsAre("10.9.0.1", "eth1"));
  EXPECT_EQ(listed.port, 14791);
  EXPECT_TRUE(listed.forced);
  EXPECT_FALSE(wire_of("on", nullptr, "auto").forced);
  EXPECT_EQ(wire_of("on", nullptr, nullptr, "loss=1%,seed=7").faults,
            (wire::fault_rates{.loss = 10'000, .seed = 7}));
}

TEST(settings, invalid_values_of_the_wire_are_ignored_and_logged) {
  logged.clear();
  set_log_hook(&remember);
  EXPECT_FALSE(wire_of(",").on);
  EXPECT_EQ(wire_of("on", "0").port, 4791);
  EXPECT_EQ(wire_of("on", "65536").port, 4791);
  EXPECT_EQ(wire_of("on", "1x").port, 4791);
  EXPECT_FALSE(wire_of("off", nullptr, "wire").forced);
  EXPECT_FALSE(wire_of("on", nullptr, "pigeon").forced);
  EXPECT_FALSE(wire_of("on", nullptr, nullptr, "loss=1%,delay=fast").faults.any());
  EXPECT_EQ(wire_of("10.9.0.0/33,fd00::/129,fd00::1::2,eth0,fd00::/64").only,
            (std::vector<std::string>{"eth0", "fd00::/64"}));
  EXPECT_FALSE(wire_of("fe80::1%eth0").on) << "an empty list is not everything";
  set_log_hook(nullptr);
  for (const char* const what :
       {"','", "'0'", "'10.9.0.0/33'", "'fd00::/129'", "'fd00::1::2'", "'fe80::1%eth0'", "'65536'",
        "'1x'", "'wire'", "'pigeon'", "'delay=fast' must be a time"})
    EXPECT_THAT(logged, ::testing::HasSubstr(what));
}

TEST(settings, invalid_setting_is_ignored_and_logged) {
  make_invalid();
  logged.clear();
  set_log_hook(&remember);
  EXPECT_EQ(read_settings(&invalid_variable<'V'>).listed, listing::on);
  set_log_hook(nullptr);
  EXPECT_THAT(logged, ::testing::HasSubstr(invalid));
}

TEST(settings, invalid_setting_that_is_read_again_is_logged_once) {
  make_invalid();
  logged.clear();
  set_log_hook(&remember);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read_settings(&invalid_variable<'V'>).listed, listing::on);
  set_log_hook(nullptr);
  EXPECT_EQ(logged.find(invalid), logged.rfind(invalid)) << logged;
  EXPECT_THAT(logged, ::testing::HasSubstr(invalid));
}

}  // namespace
}  // namespace verbena::softdev
