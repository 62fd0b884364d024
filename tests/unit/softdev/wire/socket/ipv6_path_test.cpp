// SPDX-License-Identifier: MIT
// Packets over IPv6 UDP sockets. Two processes share one port at ::1.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tests/unit/softdev/wire/socket/wired_host.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr std::size_t header_bytes = grh_bytes;

class ipv6_path : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_ipv6()) GTEST_SKIP() << "this network namespace has no ::1";
  }
  void set(int level, int name) {
    const int one = 1;
    ASSERT_EQ(::setsockopt(socket.fd(), level, name, &one, sizeof one), 0);
  }
  /// Sends a datagram from ::1 to a port at ::1.
  void send(std::span<const std::byte> bytes, const datagram_addresses& with, std::uint16_t to) {
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    sockaddr_storage name;
    udp_socket::control control;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    socket.address(with, to, name, control, message);
    ASSERT_GT(::sendmsg(socket.fd(), &message, 0), 0);
  }
  static constexpr datagram_addresses ends{.source = ipv6_loopback, .destination = ipv6_loopback};

  const std::uint16_t port = free_port();
  udp_socket socket = udp_socket::open(0, udp_socket::use::receiving).value();
};

// parity: rocev2-17
TEST_F(ipv6_path, requests_of_owner_and_client_complete) {
  wired_host first(1, ipv6_loopback, port, {}, transport::rc);
  wired_host second(2, ipv6_loopback, port, {}, transport::rc);
  first.connect(second);
  second.connect(first);
  ASSERT_EQ(second.path.role(), port_share::role::client);
  constexpr std::uint32_t bytes = 20'000;
  first.memory.fill(0, bytes, 3);
  const send_request write{.opcode = opcode::rdma_write,
                           .flags = send_flag::signaled,
                           .remote_address = second.memory.address(),
                           .remote_key = second.memory.key()};
  ASSERT_TRUE(first.mine.post(write, {first.memory.slice(0, bytes)}));
  EXPECT_EQ(next_completion({&first, &second}, first.mine.sent()).status,
            completion_status::success);
  EXPECT_TRUE(second.memory.holds(0, bytes, 3));
  send_request read = write;
  read.opcode = opcode::rdma_read;
  read.remote_address = first.memory.address();
  read.remote_key = first.memory.key();
  ASSERT_TRUE(second.mine.post(read, {second.memory.slice(bytes, bytes)}));
  EXPECT_EQ(next_completion({&first, &second}, second.mine.sent()).status,
            completion_status::success);
  EXPECT_TRUE(second.memory.holds(bytes, bytes, 3));
}

// parity: rocev2-79
TEST_F(ipv6_path, route_header_of_a_datagram_is_an_ipv6_header) {
  wired_host first(1, ipv6_loopback, port, {}, transport::ud);
  wired_host second(2, ipv6_loopback, port, {}, transport::ud);
  first.activate();
  second.activate();
  first.memory.fill(0, 100, 5);
  ASSERT_TRUE(second.mine.post_receive(7, second.memory.slice(0, header_bytes + 100)));
  const datagram_destination to = first.destination(second);
  const send_request request{.opcode = opcode::send, .flags = send_flag::signaled};
  ASSERT_TRUE(first.mine.post(request, {first.memory.slice(0, 100)}, &to));
  ASSERT_EQ(next_completion({&first, &second}, second.mine.received()).byte_count,
            header_bytes + 100);
  const std::span<const std::byte, header_bytes> got(second.memory.data(), header_bytes);
  EXPECT_EQ(got[0], std::byte{0x60});
  EXPECT_EQ(got[5], std::byte{8 + 12 + 8 + 100 + 4});  // UDP, BTH, DETH, payload, ICRC
  EXPECT_EQ(got[6], std::byte{17});
  EXPECT_EQ(route_of(got).source, ipv6_loopback);
  EXPECT_EQ(route_of(got).destination, ipv6_loopback);
  EXPECT_TRUE(second.memory.holds(header_bytes, 100, 5));
}

/// Returns a WRITE with the addresses of the peer of `to`.
std::vector<std::byte> write_to(wired_host& to, std::uint16_t from, std::uint16_t port,
                                std::uint32_t icrc_error) {
  const std::array<std::byte, 32> payload{};
  packet made;
  made.opcode = make_opcode(packet_transport::rc, operation::write_only);
  made.destination_qpn = to.pair().number();
  made.psn = 100;
  made.remote = {to.memory.address(), to.memory.key(), payload.size()};
  made.payload = payload;
  std::vector<std::byte> encoded(encoded_bytes(made));
  const std::size_t covered = encode(made, encoded);
  const network_header around{.source = ipv6_loopback,
                              .destination = ipv6_loopback,
                              .source_port = from,
                              .destination_port = port};
  store_icrc(icrc(around, std::span(encoded).first(covered)) ^ icrc_error,
             std::span(encoded).last<icrc_bytes>());
  return encoded;
}

// The kernel's rxe sends such packets.
// parity: rocev2-16
TEST_F(ipv6_path, packet_without_a_udp_checksum_is_executed_and_a_damaged_one_is_dropped) {
  set(IPPROTO_UDP, UDP_NO_CHECK6_TX);
  wired_host first(1, ipv6_loopback, port, {}, transport::rc);
  wired_host second(2, ipv6_loopback, port, {}, transport::rc);
  first.connect(second);
  second.connect(first);
  second.memory.fill(0, 64, 9);
  send(write_to(second, socket.port(), port, 0x0100), ends, port);
  EXPECT_TRUE(run_until({&first, &second}, [&] {
    return second.path.counters().intake.damaged == 1;
  })) << "no other identification makes the ICRC right";
  EXPECT_TRUE(second.memory.holds(0, 64, 9));
  send(write_to(second, socket.port(), port, 0), ends, port);
  EXPECT_TRUE(run_until({&first, &second}, [&] { return !second.memory.holds(0, 64, 9); }));
}

// parity: rocev2-19
TEST_F(ipv6_path, traffic_class_of_a_datagram_is_sent) {
  set(IPPROTO_IPV6, IPV6_RECVTCLASS);
  const std::array<std::byte, 4> bytes{};
  for (const std::uint8_t wanted : std::array<std::uint8_t, 2>{0x28, 0}) {
    datagram_addresses marked = ends;
    marked.traffic_class = wanted;
    send(bytes, marked, socket.port());
    std::array<std::byte, 8> got;
    iovec piece{got.data(), got.size()};
    alignas(cmsghdr) std::array<std::byte, 256> control;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ASSERT_TRUE(run_until({}, [&] { return ::recvmsg(socket.fd(), &message, 0) > 0; }));
    int found = -1;
    for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
         each = CMSG_NXTHDR(&message, each))
      if (each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_TCLASS)
        std::memcpy(&found, CMSG_DATA(each), sizeof found);
    EXPECT_EQ(found, wanted);
  }
}

TEST_F(ipv6_path, datagram_to_a_link_local_address_leaves_at_the_interface_of_its_source) {
  wired_host first(1, ipv6_loopback, port, {}, transport::ud);
  wired_host second(2, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}, port, {},
                    transport::ud);
  first.activate();
  const datagram_destination to = first.destination(second);
  const send_request request{.opcode = opcode::send, .flags = send_flag::signaled};
  ASSERT_TRUE(first.mine.post(request, {first.memory.slice(0, 100)}, &to));
  EXPECT_EQ(first.own().asked, first.address());
}

// parity: rocev2-18
TEST_F(ipv6_path, source_of_a_link_local_address_needs_an_interface) {
  const auto missing = find_source({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}, 0);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), EINVAL);
}

}  // namespace
}  // namespace verbena::softdev::wire
