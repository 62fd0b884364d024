// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/packet_engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "softdev/wire/engine/request_stream.hpp"
#include "tests/unit/softdev/wire/lone_host.hpp"

namespace verbena::softdev::wire {
namespace {

class PacketEngine : public lone_host {
 protected:
  PacketEngine() { connect(); }
  [[nodiscard]] static packet foreign(packet what) {
    what.partition = 0x8001;
    return what;
  }
};

TEST_F(PacketEngine, packet_of_another_partition_within_a_message_is_dropped) {
  post_receives(1);
  exchange({request(operation::send_first, 0, mtu)});
  EXPECT_TRUE(exchange({foreign(request(operation::send_last, 1, 8))}).empty());
  EXPECT_TRUE(drain(mine.received()).empty());
  EXPECT_EQ(home.port().bad_partitions(), 1U);
  expect_answer(exchange({request(operation::send_last, 1, 8)}), 1, syndrome_ack, 1);
}

// parity: rocev2-87
TEST_F(PacketEngine, answer_of_another_partition_is_dropped) {
  post(opcode::send, 8);
  exchange({foreign(reply(operation::acknowledge, 0))});
  EXPECT_TRUE(drain(mine.sent()).empty());
  EXPECT_EQ(home.port().bad_partitions(), 1U);
  exchange({reply(operation::acknowledge, 0)});
  expect_completion(completion_status::success);
}

class Congestion : public lone_host {
 protected:
  Congestion() {
    attributes.max_rd_atomic = 8;
    connect();
  }
  [[nodiscard]] packet notification() {
    static constexpr std::array<std::byte, congestion_payload_bytes> zeros{};
    packet made{.opcode = packet_opcode::congestion_notification};
    made.becn = true;
    made.destination_qpn = mine.pair().number();
    made.payload = zeros;
    return made;
  }
  /// Receives a marked packet, and returns how many CNPs answer it.
  std::size_t receive_marked(const packet& what) {
    EXPECT_TRUE(engine_of_packets.receive(what));
    engine_of_packets.receive_mark(what);
    const auto some = transmit();
    return static_cast<std::size_t>(std::ranges::count_if(some, [](const sent_packet& each) {
      return each.what.opcode == packet_opcode::congestion_notification;
    }));
  }
};

// parity: rocev2-103
TEST_F(Congestion, marked_packet_is_answered_with_a_notification) {
  post_receives(1);
  const packet first = request(operation::send_first, 0, mtu);
  EXPECT_TRUE(engine_of_packets.receive(first));
  engine_of_packets.receive_mark(first);
  const auto some = transmit();
  ASSERT_EQ(some.size(), 2U);  // the packet asks for an acknowledgement, too
  const packet& made = some[0].what;
  EXPECT_EQ(made.opcode, packet_opcode::congestion_notification);
  EXPECT_EQ(made.destination_qpn, peer_qpn);
  EXPECT_TRUE(made.becn);
  EXPECT_EQ(some[0].payload, std::vector<std::byte>(congestion_payload_bytes));
  EXPECT_EQ(out.counts[packet_event::congestion_told], 1);
}

// parity: rocev2-103
TEST_F(Congestion, queue_pair_sends_one_notification_in_50_us) {
  post_receives(1);
  EXPECT_EQ(receive_marked(request(operation::send_first, 0, mtu)), 1U);
  simulation::now += 49'999;
  EXPECT_EQ(receive_marked(request(operation::send_middle, 1, mtu)), 0U);
  simulation::now += 1;
  EXPECT_EQ(receive_marked(request(operation::send_middle, 2, mtu)), 1U);
}

// parity: rocev2-104
TEST_F(Congestion, notification_reduces_the_packets_in_flight) {
  constexpr std::uint32_t window = request_stream::window;
  EXPECT_EQ(post(opcode::rdma_write, (window + 72) * mtu).size(), window);
  // All is acknowledged; half of the window follows, and the last packet asks for an answer.
  EXPECT_TRUE(exchange({notification()}).empty());
  const auto next = exchange({reply(operation::acknowledge, window - 1)});
  ASSERT_EQ(next.size(), window / 2);
  EXPECT_TRUE(next.back().what.ack_requested);
  EXPECT_EQ(out.counts[packet_event::congestion_heard], 1);
}

/// The window becomes smaller than what is in flight, of which no packet asks for an answer.
TEST_F(Congestion, sender_asks_for_an_answer_when_its_window_closes) {
  out.room = 10;
  EXPECT_EQ(post(opcode::rdma_write, 100 * mtu).size(), 10U);
  for (int i = 0; i < 5; ++i) {
    exchange({notification()});
    EXPECT_TRUE(exchange({reply(operation::acknowledge, static_cast<std::uint32_t>(i))}).empty());
  }
  out.room = kept_output::plenty;
  const auto next = transmit();
  ASSERT_FALSE(next.empty());
  EXPECT_TRUE(next.back().what.ack_requested);
}

TEST_F(Congestion, message_is_sent_completely_with_a_small_window) {
  constexpr std::uint32_t packets = 200;
  auto some = post(opcode::rdma_write, packets * mtu);
  std::uint32_t last = 0;
  for (int rounds = 0; last + 1 < packets; ++rounds) {
    ASSERT_LT(rounds, 400);
    ASSERT_FALSE(some.empty()) << last;
    EXPECT_TRUE(some.back().what.ack_requested);
    last = (some.back().what.psn - own_psn) & psn_mask;
    some = exchange({reply(operation::acknowledge, last), notification()});
  }
  expect_completion(completion_status::success);
}

/// The responder has no window for what it sends.
TEST_F(Congestion, marked_response_reduces_the_reads_in_flight) {
  constexpr std::uint32_t packets = 100;
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(post(opcode::rdma_read, packets * mtu).size(), i < 2 ? 1U : 0U) << i;
  EXPECT_EQ(receive_marked(reply(operation::read_response_first, 0, syndrome_ack, mtu)), 1U);
  std::size_t requested = 0;
  const auto receive_to = [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = begin; i < end; ++i) {
      const bool last = i % packets == packets - 1;
      const operation what = i % packets == 0 ? operation::read_response_first
                             : last           ? operation::read_response_last
                                              : operation::read_response_middle;
      requested += exchange({reply(what, i, syndrome_ack, mtu)}).size();
    }
  };
  receive_to(1, packets);
  EXPECT_EQ(requested, 0U) << "the second one is in flight";
  receive_to(packets, 2 * packets);
  EXPECT_EQ(requested, 1U);
}

class UnreliableEngine : public lone_host {
 protected:
  UnreliableEngine() : lone_host(transport::uc) { connect(); }
};

TEST_F(UnreliableEngine, message_of_another_partition_is_counted_as_dropped) {
  post_receives(1);
  for (const operation part : {operation::send_first, operation::send_last}) {
    packet made = request(part, part == operation::send_first ? 0 : 1, mtu);
    made.opcode = make_opcode(packet_transport::uc, part);
    made.partition = 0x8001;
    exchange({made});
  }
  EXPECT_TRUE(drain(mine.received()).empty());
  EXPECT_EQ(home.port().bad_partitions(), 2U);
  EXPECT_EQ(mine.pair().diagnosis().drops.count(reason::partition_mismatch), 1U);
}

TEST_F(UnreliableEngine, notification_is_counted_and_has_no_effect) {
  static constexpr std::array<std::byte, congestion_payload_bytes> zeros{};
  packet made{.opcode = packet_opcode::congestion_notification};
  made.destination_qpn = mine.pair().number();
  made.payload = zeros;
  EXPECT_TRUE(exchange({made}).empty());
  EXPECT_EQ(out.counts[packet_event::congestion_ignored], 1);
  EXPECT_EQ(post(opcode::rdma_write, 200 * mtu).size(), 200U);
}

TEST(packet_engine, destroyed_engine_is_no_longer_the_path_of_its_home) {
  engine home({.process_slot = 1, .clock = +[] { return simulation::now; }});
  kept_output out;
  {
    packet_engine path(home, 1, out);
    EXPECT_EQ(home.routes().remote(), &path);
  }
  EXPECT_EQ(home.routes().remote(), nullptr);
}

}  // namespace
}  // namespace verbena::softdev::wire
