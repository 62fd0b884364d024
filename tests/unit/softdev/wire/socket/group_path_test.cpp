// SPDX-License-Identifier: MIT
// Datagrams from other hosts to a multicast group, on the loopback interface.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tests/unit/softdev/wire/socket/wired_host.hpp"

namespace verbena::softdev::wire {
namespace {

/// Returns 239.9.9.`last`.
network_address group_address(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 9, 9, last};
}

/// Two processes that share the port, each with one queue pair, and a foreign sender.
class group_path : public ::testing::Test {
 protected:
  static constexpr std::uint32_t payload_bytes = 100;
  static constexpr std::uint32_t whole_bytes = grh_bytes + payload_bytes;

  void SetUp() override {
    first.activate();
    second.activate();
    ASSERT_EQ(second.path.role(), port_share::role::client);
    joined.emplace(group_socket::open(group).value());
    ASSERT_EQ(joined->join(loopback_interface), 0);
  }
  void attach(wired_host& which) {
    ASSERT_NE(which.home.groups().attach(group, which.pair().number()),
              multicast_groups::change::no_room);
  }
  void expect(wired_host& at) {
    ASSERT_TRUE(at.mine.post_receive(7, at.memory.slice(0, whole_bytes)));
  }
  struct flaw {
    bool damage = false;
    bool to_host = false;  ///< sends to the address of a host instead of a group
  };
  void send(const network_address& to, const flaw& with) {
    std::array<std::byte, payload_bytes> payload{};
    payload.fill(std::byte{0x5a});
    packet made;
    made.opcode = make_opcode(packet_transport::ud, operation::send_only);
    made.destination_qpn = multicast_qpn;
    made.datagram = {.qkey = simulation::qkey, .source_qpn = 77};
    made.payload = payload;
    std::vector<std::byte> encoded(encoded_bytes(made));
    const std::size_t covered = encode(made, encoded);
    const datagram_addresses ends{.source = loopback(9),
                                  .destination = with.to_host ? first.address() : to,
                                  .interface = loopback_interface,
                                  .hop_limit = 1};
    const network_header around{.source = ends.source,
                                .destination = ends.destination,
                                .source_port = stranger.port(),
                                .destination_port = port};
    store_icrc(icrc(around, std::span(encoded).first(covered)) ^ (with.damage ? 0x8000'0001U : 0U),
               std::span(encoded).last<icrc_bytes>());
    iovec piece{encoded.data(), encoded.size()};
    sockaddr_storage name;
    udp_socket::control control;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    stranger.address(ends, port, name, control, message);
    ASSERT_GT(::sendmsg(stranger.fd(), &message, 0), 0);
  }
  [[nodiscard]] bool counted(std::uint64_t intake_counters::* which, std::uint64_t count) {
    return run_until({&first, &second}, [&] {
      return first.path.counters().intake.*which + second.path.counters().intake.*which == count;
    });
  }
  [[nodiscard]] completion received(wired_host& by) {
    return next_completion({&first, &second}, by.mine.received());
  }

  const network_address group = group_address(9);
  const std::uint16_t port = free_port();
  wired_host first{1, port, {}, transport::ud};
  wired_host second{2, port, {}, transport::ud};
  // A receiving socket, because its multicast datagrams are looped back to this host.
  udp_socket stranger = udp_socket::open(0, udp_socket::use::receiving).value();
  std::optional<group_socket> joined;
};

// parity: rocev2-82
TEST_F(group_path, members_of_all_processes_that_share_the_port_receive) {
  for (wired_host* each : {&first, &second}) {
    attach(*each);
    expect(*each);
  }
  send(group, {});
  for (wired_host* each : {&first, &second}) {
    const completion got = received(*each);
    ASSERT_EQ(got.status, completion_status::success);
    EXPECT_EQ(got.byte_count, whole_bytes);
    EXPECT_EQ(got.source_qp, 77U);
    const datagram_route way =
        route_of(std::span<const std::byte, grh_bytes>(each->memory.data(), grh_bytes));
    EXPECT_EQ(way.source, loopback(9));
    EXPECT_EQ(way.destination, group) << "the route header has the group, as in rxe";
    EXPECT_EQ(each->memory.data()[whole_bytes - 1], std::byte{0x5a});
  }
}

// parity: rocev2-82
TEST_F(group_path, process_without_members_drops_the_datagram) {
  attach(second);
  expect(first);
  expect(second);
  send(group, {});
  EXPECT_EQ(received(second).byte_count, whole_bytes);
  EXPECT_TRUE(counted(&intake_counters::unknown_qp, 1));
  EXPECT_TRUE(counted(&intake_counters::received, 1));
  const auto other = group_socket::open(group_address(10)).value();
  ASSERT_EQ(other.join(loopback_interface), 0);
  send(group_address(10), {});
  EXPECT_TRUE(counted(&intake_counters::unknown_qp, 3)) << "a group in which nobody is";
}

TEST_F(group_path, damaged_datagram_is_dropped) {
  attach(first);
  send(group, {.damage = true});
  EXPECT_TRUE(counted(&intake_counters::damaged, 1));
}

// parity: rocev2-83
TEST_F(group_path, number_of_groups_with_the_address_of_a_host_is_dropped) {
  attach(first);
  send(group, {.to_host = true});
  EXPECT_TRUE(counted(&intake_counters::unknown_qp, 1)) << "the owner forwards it to no process";
}

}  // namespace
}  // namespace verbena::softdev::wire
