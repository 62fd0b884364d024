// SPDX-License-Identifier: MIT
// Multicast: a datagram to a group reaches exactly the attached queue pairs. The connection manager
// joins the group, so that the network forwards its packets.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/ends.hpp"
#include "verbena/cm/event_channel.hpp"
#include "verbena/cm/identifier.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/global_route_header.hpp"

namespace verbena::conformance {
namespace {

class multicast_groups : public ::testing::Test {
 protected:
  static constexpr std::size_t header_bytes = global_route_header::encoded_size;
  static constexpr std::size_t room = 256;  // for the datagrams of one queue pair
  static constexpr queue_key key{0x1357};

  void SetUp() override {
    VERBENA_NEEDS(!is_iwarp(), "iWARP has no datagrams");
    VERBENA_NEEDS(!is_efa(), "an EFA has no connection manager and no groups");
    channel.emplace(cm::event_channel::create().value());
    member.emplace(cm::identifier::create(*channel, cm::port_space::udp).value());
    join();
    for (int i = 0; i < 3; ++i) {
      auto made = make.prepare({});
      ends.push_back({made.sends, made.receives, std::move(made.queue).activate(key).value()});
    }
    memory.emplace(make.pd().allocate(4 * room, all_access()).value());
  }
  // GIDs of InfiniBand contain no IP address: the device has those of the network interfaces on it.
  void bind() {
    if (!is_infiniband()) {
      const auto own = make.context().routable_gid(port_number(1)).value().gid;
      const auto& bytes = own.bytes();
      std::string address;
      for (std::size_t i = 12; i < 16; ++i) {
        if (i > 12) address += '.';
        address += std::to_string(bytes[i]);
      }
      member->bind(cm::socket_address::parse(address).value()).value();
      return;
    }
    ifaddrs* all = nullptr;
    ASSERT_EQ(::getifaddrs(&all), 0);
    bool is_bound = false;
    for (const ifaddrs* each = all; each != nullptr && !is_bound; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
      std::array<char, INET_ADDRSTRLEN> text{};
      ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr,
                  text.data(), text.size());
      is_bound = member->bind(cm::socket_address::parse(text.data()).value()).has_value();
    }
    ::freeifaddrs(all);
    ASSERT_TRUE(is_bound) << "no IPv4 address of this host belongs to the device";
  }
  // Joins a group that no other process uses, because groups belong to the host.
  void join() {
    bind();
    const auto number = static_cast<std::uint32_t>(::getpid());
    const auto name = "239." + std::to_string(number >> 16U & 0xffU) + "." +
                      std::to_string(number >> 8U & 0xffU) + "." + std::to_string(number & 0xffU);
    member->join_multicast(cm::socket_address::parse(name).value()).value();
    const auto joined = channel->wait_event(test_deadline()).value();
    ASSERT_TRUE(joined) << "no event reports the join";
    ASSERT_EQ(joined->kind(), cm::event_kind::multicast_join) << to_string(*joined);
    const auto at = joined->datagram().value().address;
    group = at.gid.value();
    where = at.lid;
    way.emplace(make.pd().create_ah(at).value());
  }
  void receive(std::size_t by) {
    ends[by].queue.post_receive({.id = by}, memory->slice(by * room, room)).value();
  }
  // Sends a datagram with the pattern `seed` to the group.
  void send(std::size_t from, std::size_t bytes, std::uint32_t seed) {
    fill(memory->bytes().subspan(3 * room, bytes), seed);
    auto batch = ends[from].queue.start_send();
    batch.send({.signaled = true}, memory->slice(3 * room, bytes),
               way->destination(queue_pair_number(queue_pair_number::max), key));
    batch.submit().value();
    EXPECT_TRUE(take_one(ends[from].sends).ok());
  }
  void expect_arrival(std::size_t at_end, std::size_t bytes, std::size_t from) {
    const completion arrived = take_one(ends[at_end].receives);
    ASSERT_TRUE(arrived.ok()) << to_string(arrived);
    EXPECT_EQ(arrived.byte_length(), header_bytes + bytes);
    EXPECT_EQ(arrived.native().src_qp, ends[from].queue.number().value());
    EXPECT_TRUE(
        holds(*memory, at_end * room + header_bytes, memory->bytes().subspan(3 * room, bytes)));
    // A datagram to a group has a GRH on every link layer.
    const auto header = header_of(arrived, memory->bytes().subspan(at_end * room));
    ASSERT_TRUE(header);
    EXPECT_EQ(header->destination, group);
  }

  maker<ud> make;
  std::optional<cm::event_channel> channel;
  std::optional<cm::identifier> member;
  gid group;
  lid where;
  std::optional<address_handle> way;
  std::vector<end<ud>> ends;
  std::optional<memory_region> memory;
};

TEST_F(multicast_groups, datagram_reaches_every_member_and_no_other_queue_pair) {
  for (const std::size_t each : {0U, 1U}) ends[each].queue.attach(group, where).value();
  for (const std::size_t each : {0U, 1U, 2U}) receive(each);
  send(2, 100, 1);
  expect_arrival(0, 100, 2);
  expect_arrival(1, 100, 2);
  EXPECT_TRUE(stays_empty(ends[2].receives)) << "the sender is not a member";
  for (const std::size_t each : {0U, 1U}) ends[each].queue.detach(group, where).value();
}

TEST_F(multicast_groups, detached_queue_pair_receives_nothing_and_sender_receives_its_own) {
  for (const std::size_t each : {0U, 1U}) ends[each].queue.attach(group, where).value();
  ends[0].queue.detach(group, where).value();
  for (const std::size_t each : {0U, 1U}) receive(each);
  send(1, 60, 2);
  expect_arrival(1, 60, 1);
  EXPECT_TRUE(stays_empty(ends[0].receives)) << "the queue pair is detached";
  ends[1].queue.detach(group, where).value();
  EXPECT_FALSE(ends[1].queue.detach(group, where)) << "the queue pair is no longer attached";
}

TEST_F(multicast_groups, attach_to_unicast_gid_is_refused) {
  const auto own = make.context().routable_gid(port_number(1)).value().gid;
  EXPECT_FALSE(ends[0].queue.attach(own));
}

}  // namespace
}  // namespace verbena::conformance
