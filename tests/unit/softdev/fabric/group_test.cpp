// SPDX-License-Identifier: MIT
// Multicast groups between processes: discovery, delivery, and slow members.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "tests/unit/softdev/fabric/device_pair.hpp"
#include "tests/unit/softdev/peers/other_users.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::uint32_t group_key = 0x1234;

// Contains the process ID, because groups belong to the user and other tests run at the same time.
gid_bytes group_gid(std::uint8_t last) {
  const auto pid = static_cast<std::uint32_t>(getpid());
  gid_bytes group{};
  group[10] = group[11] = 0xff;
  group[12] = 239;
  group[13] = static_cast<std::uint8_t>(pid >> 8U);
  group[14] = static_cast<std::uint8_t>(pid);
  group[15] = last;
  return group;
}

datagram_destination group_destination(std::uint8_t last) {
  datagram_route route{.source = group_gid(1), .destination = group_gid(last)};
  route.source[12] = 10;
  return {.address = {route, {}}, .qpn = multicast_qpn, .qkey = group_key, .known = true};
}

/// Three devices, each with a queue pair for datagrams.
class groups : public ::testing::Test {
 protected:
  groups() {
    virtual_now = 1'000'000;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      devices[i] = std::make_unique<device>(link_options{});
      ends[i] = &devices[i]->make({.transport = transport::ud});
      connect(*ends[i]->qp, connection_to(0));
      memory[i] = std::make_unique<shared_buffer>(*devices[i], memory_kind::ordinary, 16384, i + 1);
    }
  }
  void attach(std::size_t which, std::uint8_t group) {
    using change = multicast_groups::change;
    ASSERT_EQ(devices[which]->core->groups().attach(group_gid(group), ends[which]->qp->number()),
              change::group);
    ASSERT_TRUE(devices[which]->peer_link->segment().publish_group(group_gid(group)));
  }
  void detach(std::size_t which, std::uint8_t group) {
    static_cast<void>(
        devices[which]->core->groups().detach(group_gid(group), ends[which]->qp->number()));
    devices[which]->peer_link->segment().withdraw_group(group_gid(group));
  }
  template <class Done>
  bool until(Done&& done) {
    const auto give_up = clock::now() + test_timeout;
    while (!done()) {
      if (clock::now() > give_up) return false;
      for (const auto& each : devices)
        if (each) each->turn();
    }
    return true;
  }
  /// All devices start to use groups, one after the other.
  void meet() {
    for (const auto& each : devices) {
      const auto others = each->peer_link->meet_group_users().value();
      ASSERT_TRUE(until([&] {
        return std::ranges::all_of(
            others, [](const auto& other) { return other->state() != peer_state::connecting; });
      }));
    }
  }
  void receive(std::size_t which, std::size_t at, std::size_t bytes) {
    ASSERT_EQ(post_receive(*ends[which]->qp, 7, {memory[which]->slice(at, bytes)}), 0);
  }
  void send(std::uint8_t group, std::size_t bytes) {
    ASSERT_EQ(post_to(*ends[0]->qp, {.opcode = opcode::send, .flags = signaled},
                      group_destination(group), {memory[0]->slice(0, bytes)}),
              0);
  }
  std::size_t arrived(std::size_t which) { return drain(*ends[which]->received).size(); }

  std::array<std::unique_ptr<device>, 3> devices;
  std::array<std::unique_ptr<shared_buffer>, 3> memory;
  std::array<end_point*, 3> ends{};
};

TEST_F(groups, each_member_process_receives_each_datagram_once) {
  attach(1, 5);
  meet();
  attach(2, 5);  // paired devices learn this immediately
  attach(2, 6);
  receive(1, 8192, 4096 + 40);
  receive(2, 8192, 4096 + 40);
  send(5, 4096);
  std::array<std::size_t, 3> got{};
  ASSERT_TRUE(until([&] {
    for (const std::size_t i : {1, 2}) got[i] += arrived(i);
    return got[1] == 1 && got[2] == 1;
  }));
  for (const std::size_t i : {1, 2})
    EXPECT_TRUE(std::ranges::equal(std::span(memory[i]->data() + 8192 + 40, 4096),
                                   std::span(memory[0]->data(), 4096)));
  EXPECT_EQ(only(*ends[0]->sent).status, completion_status::success);
  // A member of one group only, and then of no group.
  receive(1, 0, 100);
  receive(2, 0, 100);
  send(6, 10);
  ASSERT_TRUE(until([&] { return arrived(2) == 1; }));
  detach(1, 5);
  detach(2, 5);
  send(5, 10);
  EXPECT_EQ(devices[0]->path->counters().by_ring, 3U);
  EXPECT_EQ(arrived(1), 0U);
}

TEST_F(groups, blocked_member_delays_the_other_members_once) {
  attach(1, 5);
  attach(2, 5);
  meet();
  for (int i = 0; i < 60; ++i) receive(2, 0, 100);
  // Device 1 does not run until its ring is full.
  std::size_t got = 0;
  int posted = 0;
  const auto turn_others = [&] {
    devices[0]->turn();
    devices[2]->turn();
    got += arrived(2);
  };
  while (ends[0]->qp->diagnosis().drops.count(reason::path_full) == 0) {
    ASSERT_LT(posted, 5000);
    send(5, 4096);
    ++posted;
    turn_others();
    const time_ns due = devices[0]->core->next_deadline();
    if (drain(*ends[0]->sent).empty() && due != never) virtual_now = std::max(virtual_now, due);
    turn_others();
    static_cast<void>(drain(*ends[0]->sent));
  }
  EXPECT_EQ(got, 0U);  // the datagrams are longer than the receives
  const time_ns before = virtual_now;
  for (int i = 0; i < 20; ++i) send(5, 10);
  ASSERT_TRUE(until([&] {
    got += arrived(2);
    return got == 20;
  }));
  EXPECT_EQ(virtual_now, before);
  // The datagrams that fit in the ring were delivered. Later datagrams are all delivered.
  ASSERT_TRUE(until([&] { return !finds_records(*devices[1]->peer_link); }));
  receive(1, 0, 100);
  send(5, 10);
  ASSERT_TRUE(until([&] { return arrived(1) == 1; }));
}

// Another thread found the ring full a moment later by the clock, and stored that time first.
TEST_F(groups, datagram_waits_if_another_thread_found_the_ring_full_later) {
  attach(1, 5);
  meet();
  const auto member = devices[0]->peer_link->find(devices[1]->peer_link->slot());
  ASSERT_TRUE(member);
  // Device 1 does not run, and its ring gets full except the half of answers.
  const auto fill = [&] {
    const auto lock = member->lock_sends();
    const std::uint32_t spare = devices[0]->peer_link->options().ring_bytes / 2;
    if (member->try_reserve(records::request, 4096, spare).status != ring_status::ok) return false;
    member->commit();
    return true;
  };
  while (fill()) {
  }
  member->no_room_since = virtual_now + 5;
  send(5, 4096);
  EXPECT_TRUE(ends[0]->sent->empty());
  EXPECT_EQ(ends[0]->qp->diagnosis().drops.count(reason::path_full), 0U);
  EXPECT_NE(devices[0]->core->next_deadline(), never);
}

TEST_F(groups, busy_member_receives_later_and_other_members_once) {
  attach(1, 5);
  end_point& more = devices[1]->make({.transport = transport::ud});
  connect(*more.qp, connection_to(0));
  static_cast<void>(devices[1]->core->groups().attach(group_gid(5), more.qp->number()));
  meet();
  end_point* const first = ends[1]->qp->number() < more.qp->number() ? ends[1] : &more;
  end_point* const second = first == &more ? ends[1] : &more;
  for (int i = 0; i < 3; ++i)
    for (end_point* each : {first, second})
      ASSERT_EQ(post_receive(*each->qp, 7, {memory[1]->slice(0, 100)}), 0);
  second->qp->receives().open();
  send(5, 10);
  std::size_t got = 0;
  ASSERT_TRUE(until([&] {
    got += drain(*first->received).size();
    return got > 0 && devices[1]->path->needs_progress();
  }));
  for (int i = 0; i < 10; ++i) devices[1]->turn();
  second->qp->receives().close();
  EXPECT_EQ(drain(*first->received).size(), 0U);
  ASSERT_TRUE(until([&] { return drain(*second->received).size() == 1; }));
  EXPECT_EQ(got, 1U);
}

TEST_F(groups, exited_process_leaves_its_groups) {
  attach(1, 5);
  attach(2, 5);
  meet();
  const auto gone = devices[0]->peer_link->find(devices[1]->peer_link->slot());
  ASSERT_TRUE(gone);
  memory[1].reset();
  devices[1].reset();
  ASSERT_TRUE(until([&] { return gone->state() == peer_state::dead; }));
  receive(2, 0, 100);
  send(5, 10);
  ASSERT_TRUE(until([&] { return arrived(2) == 1; }));
  EXPECT_EQ(devices[0]->path->counters().by_ring, 1U);
}

TEST_F(groups, invalid_group_record_ends_the_pairing) {
  attach(1, 5);
  meet();
  const auto to = devices[0]->peer_link->find(devices[1]->peer_link->slot());
  ASSERT_TRUE(to);
  {
    message what{.source_qpn = ends[0]->qp->number(),
                 .destination_qpn = multicast_qpn,
                 .length = 20,
                 .transport = transport::ud};
    what.origin.has_grh = true;
    const auto lock = to->lock_sends();
    const auto record = to->try_reserve(
        records::request, records::request_bytes(what.transport, what.opcode) + what.length);
    ASSERT_EQ(record.status, ring_status::ok);
    std::span<std::byte> room = record.payload;
    records::put_request(room, what);
    to->commit();
    to->announce();
  }
  ASSERT_TRUE(until([&] { return devices[1]->peer_link->counters().broken_records == 1; }));
}

// The waiting side continues when it sees the pairing. The other side may not have seen it yet, but
// its datagrams must arrive.
TEST(group_pairing, newly_paired_member_receives_subsequent_datagrams) {
  for (int round = 0; round < 200; ++round) {
    const auto member = open_link();
    const auto sender = open_link();
    ASSERT_TRUE(member->segment().publish_group(group_gid(9)));
    const auto to_sender = member->connect(sender->slot());
    const std::jthread serving([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) sender->service(clock::now());
    });
    ASSERT_TRUE(drive({member.get()}, [&] { return to_sender->state() == peer_state::paired; }));
    std::array<std::shared_ptr<peer>, 4> found;
    ASSERT_EQ(sender->find_group(group_gid(9), found), 1U) << "in round " << round;
    ASSERT_TRUE(send_record(*found[0], 1, 8, 0x5a));
    const auto give_up = clock::now() + test_timeout;
    while (member->receive(take_all, 1) == 0) ASSERT_LT(clock::now(), give_up);
  }
}

TEST(group_table, membership_is_announced_to_peers) {
  const auto own = open_link();
  const auto other = open_link();
  const auto seen = other->connect(own->slot());
  ASSERT_TRUE(drive({own.get(), other.get()}, [&] { return seen->state() == peer_state::paired; }));
  for (std::uint32_t i = 0; i < group_entries; ++i)
    ASSERT_TRUE(own->segment().publish_group(group_gid(static_cast<std::uint8_t>(i))));
  EXPECT_FALSE(own->segment().publish_group(group_gid(200)));
  EXPECT_TRUE(seen->segment().may_be_in(group_gid(127)));
  own->segment().withdraw_group(group_gid(127));
  EXPECT_FALSE(seen->segment().may_be_in(group_gid(127)));
  EXPECT_FALSE(seen->segment().may_be_in(group_gid(200)));
  EXPECT_TRUE(own->segment().publish_group(group_gid(200)));
  EXPECT_TRUE(seen->segment().may_be_in(group_gid(200)));
}

/// Three devices of a user whose names another user holds.
struct squatted_groups : groups {
  void TestBody() override {
    for (const auto& each : devices) EXPECT_FALSE(is_public_slot(each->peer_link->slot()));
    attach(1, 5);
    attach(2, 5);
    meet();
    receive(1, 8192, 4096 + 40);
    receive(2, 8192, 4096 + 40);
    send(5, 4096);
    std::array<std::size_t, 3> got{};
    EXPECT_TRUE(until([&] {
      for (const std::size_t i : {1, 2}) got[i] += arrived(i);
      return got[1] == 1 && got[2] == 1;
    }));
  }
};

void expect_delivery_in_private_slots(const char* kind) {
  const int status = as_root([=] {
    const home_directory home(crowded_user());
    const squatter other(public_slots().size(), true, kind);
    as_crowded_user([] {
      squatted_groups().TestBody();
      return 0;
    });
  });
  if (status == skipped) GTEST_SKIP() << "only root can change its user";
  EXPECT_EQ(status, 0);
}

TEST(groups_with_squatter, members_receive_if_another_user_holds_all_public_names) {
  expect_delivery_in_private_slots("soft0");
}
TEST(groups_with_squatter, members_receive_if_another_user_holds_all_names_of_groups) {
  expect_delivery_in_private_slots("groups");
}

}  // namespace
}  // namespace verbena::softdev::testing
