// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/datagrams.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "softdev/core/datagram.hpp"
#include "tests/unit/softdev/wire/lone_host.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr std::uint8_t smallest_mtu = 1;  ///< 256 bytes

/// Returns 10.0.0.`last`.
network_address address(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
}

class DatagramEngine : public lone_host {
 protected:
  static constexpr std::size_t header = grh_bytes;

  DatagramEngine() : lone_host(transport::ud) {
    attributes.destination_qpn = 0;
    connect();
    target.fill(0, buffer_bytes, 9);
    for (std::size_t i = 0; i < peer_memory.size(); ++i) peer_memory[i] = std::byte(i * 7);
  }
  /// Returns a destination on host 10.0.0.`last`.
  [[nodiscard]] static datagram_destination to(std::uint8_t last, std::uint32_t qkey,
                                               std::uint8_t mtu_code = smallest_mtu) {
    datagram_destination made{.address = {{.source = address(1), .destination = address(last)}, {}},
                              .qpn = peer_qpn,
                              .qkey = qkey,
                              .known = true};
    made.address.set_wire_mtu(mtu_code);
    return made;
  }
  std::vector<sent_packet> send(const datagram_destination& there, std::uint32_t bytes,
                                opcode op = opcode::send, send_flags flags = {}) {
    const send_request made{
        .opcode = op, .flags = flags | send_flag::signaled, .immediate = 0x01020304};
    EXPECT_TRUE(mine.post(made, {target.slice(0, bytes)}, &there));
    return transmit();
  }
  /// Returns a packet from 10.0.0.2 to the queue pair.
  [[nodiscard]] packet datagram(std::size_t bytes, operation what = operation::send_only) {
    packet made = request(what, 5, bytes);
    made.opcode = make_opcode(packet_transport::ud, what);
    made.datagram = {simulation::qkey, peer_qpn};
    made.immediate = 0x01020304;
    return made;
  }
  void receive(const packet& what) {
    const network_header from{.source = address(2), .destination = address(1)};
    EXPECT_TRUE(engine_of_packets.receive_datagram(what, from));
    EXPECT_TRUE(transmit().empty()) << "nobody answers a datagram";
  }
  void post_receive(std::uint32_t bytes) {
    EXPECT_TRUE(mine.post_receive(7, target.slice(0, bytes)));
  }
  [[nodiscard]] std::uint64_t dropped(reason why) {
    return mine.pair().diagnosis().drops.count(why);
  }
  /// Expects that the packet is dropped for this reason, without a completion or a write to memory.
  void expect_drop(const packet& what, reason why) {
    const std::uint64_t before = dropped(why);
    receive(what);
    EXPECT_EQ(dropped(why), before + 1) << static_cast<int>(why);
    EXPECT_TRUE(drain(mine.received()).empty());
    EXPECT_TRUE(target.holds(0, 4096, 9));
  }
};

// parity: rocev2-76
TEST_F(DatagramEngine, send_is_one_packet_and_completes_without_an_answer) {
  const auto sent = send(to(2, 0x55), 100);
  ASSERT_EQ(sent.size(), 1U);
  const packet& made = sent[0].what;
  EXPECT_EQ(made.opcode, make_opcode(packet_transport::ud, operation::send_only));
  EXPECT_EQ(made.datagram, (datagram_header{0x55, mine.pair().number()}));
  EXPECT_EQ(made.destination_qpn, peer_qpn);
  EXPECT_EQ(made.pkey, default_partition);
  EXPECT_EQ(made.psn, own_psn);
  EXPECT_FALSE(made.solicited);
  EXPECT_EQ(sent[0].by.source, address(1));
  EXPECT_EQ(sent[0].by.destination, address(2));
  ASSERT_EQ(sent[0].payload.size(), 100U);
  EXPECT_TRUE(std::equal(sent[0].payload.begin(), sent[0].payload.end(), target.data()));
  expect_completion(completion_status::success);
  EXPECT_EQ(engine_of_packets.next_deadline(), never);
  EXPECT_EQ(send(to(2, 0x55), 0).at(0).what.psn, (own_psn + 1) & psn_mask);
}

// parity: rocev2-76
TEST_F(DatagramEngine, packet_has_immediate_data_and_the_solicited_event) {
  const auto sent = send(to(2, 0x55), 3, opcode::send_with_imm, send_flag::solicited);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].what.opcode, make_opcode(packet_transport::ud, operation::send_only_with_imm));
  EXPECT_EQ(sent[0].what.immediate, network_order(0x01020304U));
  EXPECT_TRUE(sent[0].what.solicited);
}

// parity: rocev2-77
TEST_F(DatagramEngine, qkey_with_the_high_bit_is_replaced_by_that_of_the_sender) {
  EXPECT_EQ(send(to(2, 0x8000'0055), 8).at(0).what.datagram.qkey, simulation::qkey);
}

TEST_F(DatagramEngine, datagrams_of_one_queue_pair_have_many_destinations) {
  for (std::uint8_t last = 2; last < 40; ++last)
    EXPECT_EQ(send(to(last, 1), 8).at(0).by.destination, address(last));
}

// parity: rocev2-78
TEST_F(DatagramEngine, datagram_beyond_the_path_mtu_of_its_destination_is_not_sent) {
  EXPECT_TRUE(send(to(2, 1), 257).empty());
  expect_completion(completion_status::success);  // IBTA C10-93.1.1
  EXPECT_EQ(dropped(reason::message_too_long), 1U);
  EXPECT_EQ(send(to(2, 1), 256).size(), 1U);
  EXPECT_EQ(send(to(3, 1, 5), 4096).size(), 1U);
  EXPECT_TRUE(send(to(3, 1, 5), 4097).empty());
}

TEST_F(DatagramEngine, datagrams_wait_while_the_output_has_no_room) {
  out.room = 0;
  EXPECT_TRUE(send(to(2, 1), 10).empty());
  EXPECT_TRUE(send(to(3, 1), 20).empty());
  EXPECT_TRUE(drain(mine.sent()).empty());
  EXPECT_TRUE(engine_of_packets.wants_to_transmit());
  out.room = kept_output::plenty;
  const auto sent = transmit();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].by.destination, address(2));
  EXPECT_EQ(sent[1].payload.size(), 20U);
  EXPECT_EQ(drain(mine.sent()).size(), 2U);
}

// parity: rocev2-79
TEST_F(DatagramEngine, receive_has_the_network_header_the_payload_and_the_sender) {
  post_receive(header + 100);
  receive(datagram(100, operation::send_only_with_imm));
  const auto got = drain(mine.received());
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].wr_id, 7U);
  EXPECT_EQ(got[0].status, completion_status::success);
  EXPECT_EQ(got[0].byte_count, header + 100U);
  EXPECT_EQ(got[0].flags, completion_with_grh | completion_with_imm);
  EXPECT_EQ(got[0].immediate, network_order(0x01020304U));
  EXPECT_EQ(got[0].source_qp, peer_qpn);
  EXPECT_EQ(got[0].source_lid, 0U);
  EXPECT_EQ(got[0].service_level, 10U);  // UDP over IPv4
  EXPECT_TRUE(std::equal(peer_memory.begin(), peer_memory.begin() + 100, target.data() + header));
  const datagram_route route =
      route_of(std::span<const std::byte, grh_bytes>(target.data(), header));
  EXPECT_EQ(route.source, address(2));
  EXPECT_EQ(route.destination, address(1));
  // IPv4 20, UDP 8, BTH 12, DETH 8, ImmDt 4, payload 100, ICRC 4.
  EXPECT_EQ(target.data()[header - 18], std::byte{0});
  EXPECT_EQ(target.data()[header - 17], std::byte{156});
}

TEST_F(DatagramEngine, datagrams_of_any_sender_are_received) {
  post_receive(header);
  post_receive(header);
  packet other = datagram(0);
  other.datagram.source_qpn = 0x30'0001;
  receive(datagram(0));
  receive(other);
  const auto got = drain(mine.received());
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].source_qp, peer_qpn);
  EXPECT_EQ(got[1].source_qp, 0x30'0001U);
}

// parity: rocev2-80
TEST_F(DatagramEngine, datagram_that_fails_a_check_is_counted_and_leaves_no_trace) {
  expect_drop(datagram(8), reason::receiver_not_ready);
  post_receive(header + 20);
  packet wrong = datagram(8);
  wrong.datagram.qkey ^= 1;
  expect_drop(wrong, reason::qkey_mismatch);
  EXPECT_EQ(home.port().bad_qkeys(), 1U);
  wrong = datagram(8);
  wrong.pkey = 0x8001;
  expect_drop(wrong, reason::partition_mismatch);
  EXPECT_EQ(home.port().bad_pkeys(), 1U);
  expect_drop(datagram(21), reason::receive_too_short);
  EXPECT_EQ(mine.pair().state(), queue_pair_state::rts);
  // The receive request was not consumed.
  receive(datagram(20));
  EXPECT_EQ(drain(mine.received()).size(), 1U);
}

TEST_F(DatagramEngine, queue_pair_that_is_not_ready_to_receive_drops_datagrams) {
  mine.pair().modify({.state = queue_pair_state::error}, attribute::state).value();
  expect_drop(datagram(8), reason::peer_not_ready);
  mine.pair().modify({.state = queue_pair_state::reset}, attribute::state).value();
  expect_drop(datagram(8), reason::peer_not_ready);
}

TEST_F(DatagramEngine, packets_of_connections_are_dropped) {
  post_receive(header + 20);
  for (const packet_transport kind : {packet_transport::rc, packet_transport::uc}) {
    packet other = datagram(8);
    other.opcode = make_opcode(kind, operation::send_only);
    EXPECT_TRUE(exchange({other}).empty());
    receive(other);
  }
  packet acknowledgement = reply(operation::acknowledge, 0);
  EXPECT_TRUE(exchange({acknowledgement}).empty());
  EXPECT_TRUE(drain(mine.received()).empty());
}

TEST_F(DatagramEngine, datagram_for_no_queue_pair_is_dropped) {
  packet other = datagram(8);
  other.destination_qpn += 1;
  receive(other);
}

class ConnectedEngine : public lone_host {
 protected:
  ConnectedEngine() { connect(); }
};

TEST_F(ConnectedEngine, datagram_is_dropped) {
  post_receives(1);
  packet other = request(operation::send_only, 0, 8);
  other.opcode = make_opcode(packet_transport::ud, operation::send_only);
  EXPECT_TRUE(exchange({other}).empty());
  EXPECT_TRUE(engine_of_packets.receive_datagram(other, {}));
  EXPECT_TRUE(transmit().empty());
  EXPECT_TRUE(drain(mine.received()).empty());
  // The connection is still usable.
  expect_answer(exchange({request(operation::send_only, 0, 8)}), 0, syndrome_ack, 1);
}

}  // namespace
}  // namespace verbena::softdev::wire
