// SPDX-License-Identifier: MIT
// Packets that are sent in trains, which the kernel segments. They are received one by one, or
// joined.
#include "softdev/wire/socket/packet_sender.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "softdev/wire/auth/crypto.hpp"
#include "softdev/wire/auth/packet_signer.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"
#include "softdev/wire/socket/datagram_batch.hpp"
#include "softdev/wire/socket/port_share.hpp"
#include "tests/unit/softdev/wire/socket/wired_host.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr std::uint32_t qpn = 0x1234;

/// A sender whose destination is a port of this process.
class packet_sender_to_port : public ::testing::Test {
 protected:
  void put(std::uint32_t psn, std::size_t bytes, std::uint8_t host = 1) {
    packet what{.opcode = make_opcode(packet_transport::rc, operation::send_only),
                .destination_qpn = qpn,
                .psn = psn,
                .payload = std::span<const std::byte>(payload_).first(bytes)};
    EXPECT_TRUE(sender->put({.source = loopback(1), .destination = loopback(host)}, what));
  }

  /// A received packet, and the identification with which its ICRC is correct.
  struct arrival {
    std::uint32_t psn;
    std::size_t bytes;
    std::uint16_t identification;
  };
  /// Parses a packet. Fails if the identification for which the ICRC is correct is not below 64.
  arrival read(const datagram_addresses& ends, std::span<const std::byte> bytes) const {
    packet what;
    EXPECT_EQ(parse(bytes, largest_mtu, what), packet_fault::none);
    const std::uint32_t received = load_icrc(bytes.last<icrc_bytes>());
    network_header around{.source = ends.source,
                          .destination = ends.destination,
                          .source_port = ends.source_port,
                          .destination_port = port};
    while (around.identification < 64 && icrc(around, bytes.first(bytes.size() - 4)) != received)
      ++around.identification;
    EXPECT_LT(around.identification, 64U);
    return {what.psn, what.payload.size(), around.identification};
  }
  /// Receives until `count` packets have arrived, from a socket with UDP_GRO.
  std::vector<arrival> receive_joined(port_share& share, std::size_t count) {
    std::vector<arrival> all;
    messages = 0;
    while (all.size() < count) {
      bool ended = false;
      const std::size_t now = batch.receive(share, ended);
      if (now == 0) wait_for(share.source());
      for (std::size_t i = 0; i < now; ++i) {
        received_train train;
        EXPECT_TRUE(batch.read(i, train));
        ++messages;
        while (!train.bytes.empty()) all.push_back(read(train.ends, train.take(1).bytes));
      }
    }
    return all;
  }
  std::vector<arrival> receive_singly(const udp_socket& from, std::size_t count) {
    std::vector<arrival> all;
    while (all.size() < count) {
      std::array<std::byte, 8192> bytes;
      sockaddr_storage name;
      udp_socket::control control;
      iovec piece{bytes.data(), bytes.size()};
      msghdr message{.msg_name = &name,
                     .msg_namelen = sizeof name,
                     .msg_iov = &piece,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes.data(),
                     .msg_controllen = control.bytes.size(),
                     .msg_flags = 0};
      const ssize_t length = ::recvmsg(from.fd(), &message, MSG_DONTWAIT);
      if (length < 0) {
        wait_for(from.fd());
        continue;
      }
      datagram_addresses ends;
      EXPECT_TRUE(udp_socket::read_ends(message, ends));
      all.push_back(read(ends, std::span(bytes).first(static_cast<std::size_t>(length))));
    }
    return all;
  }
  static void wait_for(int fd) {
    pollfd which{.fd = fd, .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&which, 1, 20'000), 1) << "a packet is missing";
  }

  const std::uint16_t port = free_port();
  const int next_descriptor = [] {
    const int free = ::fcntl(0, F_DUPFD, 0);
    ::close(free);
    return free;
  }();
  std::unique_ptr<packet_sender> sender = packet_sender::open(port).value();
  datagram_batch batch;
  std::size_t messages = 0;

 private:
  std::array<std::byte, largest_mtu> payload_{};
};

TEST_F(packet_sender_to_port, packets_of_one_size_are_one_message_to_a_socket_that_joins) {
  port_share share = port_share::open(port, 1).value();
  ASSERT_EQ(share.join().value(), port_share::role::owner);
  for (std::uint32_t psn = 0; psn < 12; ++psn) put(psn, psn == 11 ? 100 : 1024);
  EXPECT_TRUE(sender->flush());
  const auto all = receive_joined(share, 12);
  ASSERT_EQ(all.size(), 12U);
  EXPECT_EQ(messages, 1U);
  for (std::uint32_t i = 0; i < 12; ++i) {
    EXPECT_EQ(all[i].psn, i);
    EXPECT_EQ(all[i].bytes, i == 11 ? 100U : 1024U);
    EXPECT_EQ(all[i].identification, i);
  }
  EXPECT_EQ(sender->counters().sent, 12U);
}

TEST_F(packet_sender_to_port, packet_that_cannot_be_signed_is_counted_and_not_sent) {
  port_share share = port_share::open(port, 1).value();
  ASSERT_EQ(share.join().value(), port_share::role::owner);
  // libcrypto fails because the MAC has no key.
  sender = packet_sender::open(port, packet_signer(gmac::open().value(), 7)).value();
  EXPECT_FALSE(sender->take_signing_failure());
  for (std::uint32_t psn = 0; psn < 3; ++psn) put(psn, 1024);
  EXPECT_TRUE(sender->empty());
  EXPECT_TRUE(sender->flush());
  EXPECT_EQ(sender->counters().not_signed, 3U);
  EXPECT_EQ(sender->counters().sent, 0U);
  EXPECT_TRUE(sender->take_signing_failure());
  EXPECT_FALSE(sender->take_signing_failure()) << "it is reported once";
  // The next packet that arrives is one of another sender.
  sender = packet_sender::open(port).value();
  put(9, 8);
  EXPECT_TRUE(sender->flush());
  EXPECT_EQ(receive_joined(share, 1).front().psn, 9U);
}

// parity: rocev2-103
TEST_F(packet_sender_to_port, packets_of_connections_are_ect_and_datagrams_are_not) {
  port_share share = port_share::open(port, 1).value();
  ASSERT_EQ(share.join().value(), port_share::role::owner);
  std::vector<network_address> hosts{loopback(1)};
  if (has_ipv6()) hosts.push_back(ipv6_loopback);
  const packet what{.opcode = make_opcode(packet_transport::rc, operation::send_only)};
  for (const network_address& each : hosts)
    for (const std::uint8_t traffic_class : {0, 0x80})
      for (const bool reacts : {true, false}) {
        const datagram_addresses ends{.source = each,
                                      .destination = each,
                                      .traffic_class = traffic_class,
                                      .reacts_to_congestion = reacts};
        EXPECT_TRUE(sender->put(ends, what));
        EXPECT_TRUE(sender->flush());
        wait_for(share.source());
        bool ended = false;
        ASSERT_EQ(batch.receive(share, ended), 1U);
        received_train train;
        ASSERT_TRUE(batch.read(0, train));
        const bool is_ipv6 = each == ipv6_loopback;
        EXPECT_EQ(train.ends.traffic_class, (is_ipv6 ? traffic_class : 0) | (reacts ? 2 : 0))
            << is_ipv6;
      }
}

TEST_F(packet_sender_to_port, train_ends_with_size_host_and_largest_message) {
  port_share share = port_share::open(port, 1).value();
  ASSERT_EQ(share.join().value(), port_share::role::owner);
  std::uint32_t psn = 0;
  const auto put_all = [&](std::size_t count, std::size_t bytes, std::uint8_t host) {
    for (std::size_t i = 0; i < count; ++i) put(psn++, bytes, host);
  };
  put_all(1, 8, 1);
  put_all(2, 4096, 1);  // longer than the preceding packet
  put_all(1, 8, 1);     // the last packet of this train
  put_all(2, 8, 1);
  put_all(2, 8, 2);
  put_all(16, 4096, 2);  // 15 of them are 61980 bytes
  EXPECT_TRUE(sender->flush());
  const auto all = receive_joined(share, psn);
  const std::vector<std::uint16_t> expected{0, 0, 1, 2, 0, 1, 0,  1,  0,  1,  2,  3,
                                            4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0};
  ASSERT_EQ(all.size(), expected.size());
  EXPECT_EQ(messages, 6U);
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].psn, i);
    EXPECT_EQ(all[i].identification, expected[i]) << i;
  }
}

TEST_F(packet_sender_to_port, train_arrives_one_by_one_at_a_socket_that_does_not_join) {
  const udp_socket receiver = udp_socket::open(port, udp_socket::use::receiving).value();
  for (std::uint32_t psn = 0; psn < 80; ++psn) put(psn, 256);
  EXPECT_TRUE(sender->flush());
  const auto all = receive_singly(receiver, 80);
  for (std::uint32_t i = 0; i < 80; ++i) {
    EXPECT_EQ(all[i].psn, i);
    EXPECT_EQ(all[i].identification, i % 64);
  }
}

TEST_F(packet_sender_to_port, packets_leave_singly_if_the_kernel_divides_no_message) {
  const udp_socket receiver = udp_socket::open(port, udp_socket::use::receiving).value();
  // The kernel does not segment messages of a socket without UDP checksums.
  const int on = 1;
  ASSERT_EQ(::setsockopt(next_descriptor, SOL_SOCKET, SO_NO_CHECK, &on, sizeof on), 0);
  for (int run = 0; run < 2; ++run) {
    for (std::uint32_t psn = 0; psn < 20; ++psn) put(psn, 256);
    EXPECT_TRUE(sender->flush());
    const auto all = receive_singly(receiver, 20);
    for (std::uint32_t i = 0; i < 20; ++i) {
      EXPECT_EQ(all[i].psn, i);
      EXPECT_EQ(all[i].identification, 0U);
    }
  }
  const packet_sender_counters counted = sender->counters();
  EXPECT_EQ(counted.sent, 40U);
  EXPECT_EQ(counted.sent_bytes, 40U * (12 + 256 + 4));
  EXPECT_EQ(counted.refused, 0U);
}

TEST_F(packet_sender_to_port, error_of_an_address_does_not_end_the_use_of_trains) {
  if (!has_ipv6()) GTEST_SKIP() << "this network namespace has no ::1";
  port_share share = port_share::open(port, 1).value();
  ASSERT_EQ(share.join().value(), port_share::role::owner);
  // An address that was removed. Its packets get EINVAL, as messages that cannot be divided.
  const datagram_addresses removed{.source = {0xfd, 0, 0, 9}, .destination = ipv6_loopback};
  const packet what{.opcode = make_opcode(packet_transport::rc, operation::send_only),
                    .destination_qpn = qpn};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(sender->put(removed, what));
  EXPECT_TRUE(sender->flush());
  EXPECT_EQ(sender->counters().refused, 3U);
  EXPECT_EQ(sender->counters().last_error, EINVAL);
  for (std::uint32_t psn = 0; psn < 12; ++psn) put(psn, 1024);
  EXPECT_TRUE(sender->flush());
  EXPECT_EQ(receive_joined(share, 12).size(), 12U);
  EXPECT_EQ(messages, 1U);
}

TEST_F(packet_sender_to_port, train_to_an_unreachable_address_is_lost_and_counted) {
  for (std::uint32_t psn = 0; psn < 3; ++psn)
    EXPECT_TRUE(
        sender->put({.source = loopback(1),
                     .destination = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 240, 0, 0, 1}},
                    {.opcode = make_opcode(packet_transport::rc, operation::send_only),
                     .destination_qpn = qpn,
                     .psn = psn}));
  put(7, 8);
  const udp_socket receiver = udp_socket::open(port, udp_socket::use::receiving).value();
  EXPECT_TRUE(sender->flush());
  EXPECT_EQ(receive_singly(receiver, 1).front().psn, 7U);
  EXPECT_EQ(sender->counters().refused, 3U);
  EXPECT_EQ(sender->counters().sent, 1U);
}

}  // namespace
}  // namespace verbena::softdev::wire
