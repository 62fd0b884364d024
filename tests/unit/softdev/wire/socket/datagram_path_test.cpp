// SPDX-License-Identifier: MIT
// Datagrams over UDP sockets.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/unit/softdev/wire/socket/wired_host.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr std::uint32_t header = grh_bytes;

class datagram_path : public ::testing::Test {
 protected:
  void SetUp() override {
    first.activate();
    second.activate();
    for (wired_host* each : {&first, &second}) each->memory.fill(0, 4096, each == &first ? 1 : 2);
  }
  void send(wired_host& from, const datagram_destination& to, std::uint32_t bytes) {
    const send_request request{.opcode = opcode::send, .flags = send_flag::signaled};
    ASSERT_TRUE(from.mine.post(request, {from.memory.slice(0, bytes)}, &to));
    EXPECT_EQ(next_completion({&first, &second}, from.mine.sent()).status,
              completion_status::success);
  }
  /// Posts a receive request for `bytes` of payload at offset 8192.
  void expect(wired_host& at, std::uint32_t bytes) {
    ASSERT_TRUE(at.mine.post_receive(7, at.memory.slice(8192, header + bytes)));
  }
  [[nodiscard]] completion received(wired_host& by) {
    return next_completion({&first, &second}, by.mine.received());
  }
  [[nodiscard]] static datagram_route route_at(wired_host& at) {
    return route_of(std::span<const std::byte, grh_bytes>(at.memory.data() + 8192, header));
  }

  const std::uint16_t port = free_port();
  wired_host first{1, port, {}, transport::ud};
  wired_host second{2, port, {}, transport::ud};
};

TEST_F(datagram_path, datagrams_reach_owner_and_client_and_are_answered_by_their_header) {
  ASSERT_EQ(first.path.role(), port_share::role::owner);
  ASSERT_EQ(second.path.role(), port_share::role::client);
  struct direction {
    wired_host& from;
    wired_host& to;
  };
  for (const direction& each : {direction{first, second}, direction{second, first}}) {
    expect(each.to, 1024);
    send(each.from, each.from.destination(each.to), 1024);
    const completion got = received(each.to);
    ASSERT_EQ(got.status, completion_status::success);
    EXPECT_EQ(got.byte_count, header + 1024);
    EXPECT_EQ(got.source_qp, each.from.pair().number());
    EXPECT_TRUE(each.to.memory.holds(8192 + header, 1024, &each.from == &first ? 1 : 2));
    const datagram_route way = route_at(each.to);
    EXPECT_EQ(way.source, each.from.address());
    EXPECT_EQ(way.destination, each.to.address());
    datagram_destination back{
        .address = {{.source = way.destination, .destination = way.source}, {}},
        .qpn = got.source_qp,
        .qkey = simulation::qkey,
        .known = true};
    back.address.set_wire_mtu(wired_host::path_mtu);
    expect(each.from, 100);
    send(each.to, back, 100);
    EXPECT_EQ(received(each.from).byte_count, header + 100);
  }
}

// parity: rocev2-81
TEST_F(datagram_path, flood_without_receives_is_dropped_and_the_next_datagram_arrives) {
  const datagram_destination to = first.destination(second);
  for (int i = 0; i < 200; ++i) send(first, to, 512);
  EXPECT_TRUE(run_until({&first, &second}, [&] {
    return second.pair().diagnosis().drops.count(reason::receiver_not_ready) > 0;
  }));
  expect(second, 1024);
  // Datagrams of the flood can still arrive.
  send(first, to, 700);
  const completion got = received(second);
  EXPECT_EQ(got.status, completion_status::success);
  EXPECT_TRUE(got.byte_count == header + 512 || got.byte_count == header + 700);
  EXPECT_EQ(second.pair().state(), queue_pair_state::rts);
}

/// A foreign host sends a datagram to `second`, with at most one flaw.
class datagram_stranger : public datagram_path {
 protected:
  struct flaw {
    std::uint8_t source = 77;  ///< 127.0.0.n
    std::uint8_t destination = 2;
    std::uint32_t qkey = simulation::qkey;
    std::uint32_t icrc_bits = 0;
    std::size_t bytes = 32;
    packet_transport transport = packet_transport::ud;
  };

  void send_packet(const flaw& with) {
    const std::vector<std::byte> payload(with.bytes, std::byte{0x5a});
    packet made;
    made.opcode = make_opcode(with.transport, operation::send_only);
    made.destination_qpn = second.pair().number();
    made.datagram = {with.qkey, 0x4321};
    made.payload = payload;
    std::vector<std::byte> encoded(encoded_bytes(made));
    const std::size_t covered = encode(made, encoded);
    const datagram_addresses ends{.source = loopback(with.source),
                                  .destination = loopback(with.destination)};
    const network_header around{.source = ends.source,
                                .destination = ends.destination,
                                .source_port = socket.port(),
                                .destination_port = port};
    store_icrc(icrc(around, std::span(encoded).first(covered)) ^ with.icrc_bits,
               std::span(encoded).last<icrc_bytes>());
    iovec piece{encoded.data(), encoded.size()};
    sockaddr_storage name;
    udp_socket::control control;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    socket.address(ends, port, name, control, message);
    ASSERT_GT(::sendmsg(socket.fd(), &message, 0), 0);
  }
  [[nodiscard]] bool counted(std::uint64_t intake_counters::* which) {
    return run_until({&first, &second}, [&] {
      return first.path.counters().intake.*which + second.path.counters().intake.*which == 1;
    });
  }
  [[nodiscard]] bool dropped(reason why) {
    return run_until({&first, &second},
                     [&] { return second.pair().diagnosis().drops.count(why) == 1; });
  }
  void expect_no_trace() {
    std::array<completion, 1> none;
    EXPECT_EQ(second.mine.received().poll(none), 0U);
    EXPECT_TRUE(second.memory.holds(8192, header + 64, 5));
    // The next datagram uses the receive request.
    send_packet({});
    const completion got = received(second);
    EXPECT_EQ(got.byte_count, header + 32);
    EXPECT_EQ(got.source_qp, 0x4321U);
    EXPECT_EQ(route_at(second).source, loopback(77));
  }
  void SetUp() override {
    datagram_path::SetUp();
    second.memory.fill(8192, 4096, 5);
    expect(second, 64);
  }

  udp_socket socket = udp_socket::open(0, udp_socket::use::sending).value();
};

TEST_F(datagram_stranger, datagram_of_any_host_is_received) { expect_no_trace(); }

TEST_F(datagram_stranger, datagram_to_an_address_that_does_not_receive_is_dropped) {
  send_packet({.destination = 3});
  EXPECT_TRUE(counted(&intake_counters::foreign));
  expect_no_trace();
}

// parity: rocev2-80
TEST_F(datagram_stranger, datagram_with_wrong_qkey_is_dropped) {
  send_packet({.qkey = simulation::qkey ^ 0x100});
  EXPECT_TRUE(dropped(reason::qkey_mismatch));
  EXPECT_EQ(second.home.port().bad_qkeys(), 1U);
  expect_no_trace();
}

// parity: rocev2-80
TEST_F(datagram_stranger, datagram_that_is_longer_than_the_receive_is_dropped) {
  send_packet({.bytes = 65});
  EXPECT_TRUE(dropped(reason::receive_too_short));
  expect_no_trace();
}

TEST_F(datagram_stranger, datagram_beyond_the_largest_mtu_is_dropped) {
  send_packet({.bytes = 4097});
  EXPECT_TRUE(counted(&intake_counters::malformed));
  expect_no_trace();
}

// parity: rocev2-24
TEST_F(datagram_stranger, damaged_datagram_is_dropped) {
  send_packet({.icrc_bits = 0x8000'0001});
  EXPECT_TRUE(counted(&intake_counters::damaged));
  expect_no_trace();
}

TEST_F(datagram_stranger, packet_of_a_connection_is_dropped) {
  send_packet({.transport = packet_transport::rc});
  EXPECT_TRUE(counted(&intake_counters::received));  // passed to the engine, which drops it
  std::array<completion, 1> none;
  EXPECT_EQ(second.mine.received().poll(none), 0U);
  EXPECT_TRUE(second.memory.holds(8192, header + 64, 5));
}

}  // namespace
}  // namespace verbena::softdev::wire
