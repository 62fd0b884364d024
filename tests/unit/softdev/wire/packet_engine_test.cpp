// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/packet_engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "softdev/wire/engine/packet_requester.hpp"
#include "softdev/wire/engine/sequence.hpp"
#include "tests/unit/softdev/wire/lone_host.hpp"

namespace verbena::softdev::wire {
namespace {

class PacketEngine : public lone_host {
 protected:
  PacketEngine() { connect(); }
  [[nodiscard]] static packet foreign(packet what) {
    what.pkey = 0x8001;
    return what;
  }
};

TEST_F(PacketEngine, packet_of_another_partition_within_a_message_is_dropped) {
  post_receives(1);
  exchange({request(operation::send_first, 0, mtu)});
  EXPECT_TRUE(exchange({foreign(request(operation::send_last, 1, 8))}).empty());
  EXPECT_TRUE(drain(mine.received()).empty());
  EXPECT_EQ(home.port().bad_pkeys(), 1U);
  expect_answer(exchange({request(operation::send_last, 1, 8)}), 1, syndrome_ack, 1);
}

// parity: rocev2-87
TEST_F(PacketEngine, answer_of_another_partition_is_dropped) {
  post(opcode::send, 8);
  exchange({foreign(reply(operation::acknowledge, 0))});
  EXPECT_TRUE(drain(mine.sent()).empty());
  EXPECT_EQ(home.port().bad_pkeys(), 1U);
  exchange({reply(operation::acknowledge, 0)});
  expect_completion(completion_status::success);
}

TEST_F(PacketEngine, acknowledgement_that_is_due_leaves_when_the_queue_pair_is_destroyed) {
  {
    simulation::end other(home, transport::rc);
    other.connect(attributes);
    ASSERT_TRUE(other.post_receive(0, sink.slice(0, 64)));
    packet what = request(operation::send_only, 0, 8);
    what.destination_qpn = other.pair().number();
    ASSERT_TRUE(engine_of_packets.receive(what));
    EXPECT_EQ(drain(other.received()).size(), 1U);
    EXPECT_TRUE(out.take().empty()) << "it leaves with the end of the batch";
  }
  expect_answer(out.take(), 0, syndrome_ack, 1);
}

/// Two queue pairs whose output has room for 8 packets in each call.
class SharedRoom : public PacketEngine {
 protected:
  static constexpr std::uint32_t other_peer_qpn = peer_qpn + 1;
  SharedRoom() {
    attributes.destination_qpn = other_peer_qpn;
    other.connect(attributes);
    out.room = 0;
  }
  /// Returns how many of the packets of four calls are from `mine`.
  [[nodiscard]] std::ptrdiff_t transmit_four_times() {
    std::vector<sent_packet> all;
    for (int call = 0; call < 4; ++call) {
      out.room = 8;
      for (sent_packet& each : transmit()) all.push_back(std::move(each));
    }
    EXPECT_EQ(all.size(), 32U);
    return std::ranges::count_if(
        all, [](const sent_packet& each) { return each.what.destination_qpn == peer_qpn; });
  }
  simulation::end other{home, transport::rc};
};

TEST_F(SharedRoom, queue_pairs_with_long_responses_get_room_in_turn) {
  packet read = remote(operation::read_request, 0, 64 * mtu);
  ASSERT_TRUE(exchange({read}).empty());
  read.destination_qpn = other.pair().number();
  ASSERT_TRUE(exchange({read}).empty());
  EXPECT_EQ(transmit_four_times(), 16);
}

TEST_F(SharedRoom, queue_pairs_with_long_requests_get_room_in_turn) {
  const send_request write{
      .opcode = opcode::rdma_write, .remote_address = 0x10'0000, .remote_key = 0x77};
  for (simulation::end* const each : {&mine, &other})
    EXPECT_TRUE(each->post(write, {sink.slice(0, 64 * mtu)}));
  EXPECT_EQ(transmit_four_times(), 16);
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
  /// Returns the ACK of packet `index` of the last message.
  [[nodiscard]] packet answer_to(std::uint32_t index) {
    packet made = reply(operation::acknowledge, 0);
    made.psn = psn_plus(begin, index);
    return made;
  }
  std::uint32_t begin = own_psn;

  /// Receives a marked packet. Returns the number of CNPs in response.
  std::size_t receive_marked(const packet& what) {
    EXPECT_TRUE(engine_of_packets.receive(what, true));
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
  EXPECT_TRUE(engine_of_packets.receive(first, true));
  const auto some = transmit();
  ASSERT_EQ(some.size(), 2U);  // a CNP and an ACK
  const packet& made = some[0].what;
  EXPECT_EQ(made.opcode, packet_opcode::congestion_notification);
  EXPECT_EQ(made.destination_qpn, peer_qpn);
  EXPECT_TRUE(made.becn);
  EXPECT_EQ(some[0].payload, std::vector<std::byte>(congestion_payload_bytes));
  EXPECT_EQ(out.counts[packet_event::notification_sent], 1);
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
  constexpr std::uint32_t window = packet_requester::window;
  EXPECT_EQ(post(opcode::rdma_write, (window + 72) * mtu).size(), window);
  // All packets are acknowledged. Half a window of packets follows, and the last one requests an
  // ACK.
  EXPECT_TRUE(exchange({notification()}).empty());
  const auto next = exchange({reply(operation::acknowledge, window - 1)});
  ASSERT_EQ(next.size(), window / 2);
  EXPECT_TRUE(next.back().what.ack_requested);
  EXPECT_EQ(out.counts[packet_event::notification_handled], 1);
}

/// Only packets with AckReq are acknowledged, and the output has little room.
// parity: rocev2-104
TEST_F(Congestion, message_is_sent_completely_with_any_window) {
  constexpr std::uint32_t packets = 200;
  for (int notifications = 0; notifications < 12; ++notifications) {
    SCOPED_TRACE(notifications);
    auto some = post(opcode::rdma_write, packets * mtu);
    std::uint32_t done = 0;
    std::uint32_t asked = 0;
    for (int rounds = 0; done < packets; ++rounds) {
      ASSERT_LT(rounds, 1000);
      for (const sent_packet& each : some)
        if (each.what.ack_requested) asked = ((each.what.psn - begin) & psn_mask) + 1;
      std::vector<packet> answers;
      if (asked > done) answers.push_back(answer_to(asked - 1));
      ASSERT_TRUE(!answers.empty() || !some.empty()) << done;
      done = asked;
      if (rounds < notifications) answers.push_back(notification());
      out.room = 1 + rounds % 23;
      some = exchange(answers);
    }
    out.room = kept_output::plenty;
    begin = psn_plus(begin, packets);
    expect_completion(completion_status::success, static_cast<std::uint64_t>(notifications));
  }
}

TEST_F(Congestion, few_packets_ask_for_an_acknowledgement_when_the_window_is_odd) {
  constexpr std::uint32_t packets = 240;
  auto some = post(opcode::rdma_write, packets * mtu);
  const auto more = exchange({answer_to(62), notification()});
  some.insert(some.end(), more.begin(), more.end());
  std::size_t asking = 0;
  std::uint32_t next = 63;
  // Each packet with AckReq is acknowledged separately.
  for (std::size_t i = 0; i < some.size(); ++i) {
    if (!some[i].what.ack_requested) continue;
    ++asking;
    const std::uint32_t place = (some[i].what.psn - begin) & psn_mask;
    if (place < next) continue;
    next = place + 1;
    const auto later = exchange({answer_to(place)});
    some.insert(some.end(), later.begin(), later.end());
  }
  EXPECT_EQ(some.size(), packets);
  EXPECT_LT(asking, packets / 8);
  expect_completion(completion_status::success);
}

TEST_F(Congestion, notification_before_the_first_request_has_no_effect) {
  for (int i = 0; i < 3; ++i) exchange({notification()});
  EXPECT_EQ(out.counts[packet_event::notification_ignored], 3);
  constexpr std::uint32_t window = packet_requester::window;
  EXPECT_EQ(post(opcode::rdma_write, (window + 72) * mtu).size(), window);
  exchange({notification()});
  EXPECT_EQ(out.counts[packet_event::notification_handled], 1);
}

/// A late ACK of packets that are about to be retransmitted.
TEST_F(Congestion, acknowledged_packets_are_not_sent_again) {
  constexpr std::uint32_t packets = 100;
  post(opcode::rdma_write, packets * mtu);
  exchange({notification()});
  ASSERT_FALSE(wait().empty()) << "the ACK timeout";
  const auto next = exchange({answer_to(69)});
  ASSERT_FALSE(next.empty());
  for (const sent_packet& each : next) EXPECT_GE((each.what.psn - begin) & psn_mask, 70U);
}

TEST_F(Congestion, packet_of_another_partition_is_not_answered_with_a_notification) {
  post_receives(1);
  packet what = request(operation::send_first, 0, mtu);
  what.pkey = 0x8001;
  EXPECT_EQ(receive_marked(what), 0U);
}

/// Marks on responses: the responder has no window for them.
TEST_F(Congestion, marked_response_reduces_the_reads_in_flight) {
  constexpr std::uint32_t packets = 100;
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(post(opcode::rdma_read, packets * mtu).size(), i < 2 ? 1U : 0U) << i;
  EXPECT_EQ(receive_marked(reply(operation::read_response_first, 0, syndrome_ack, mtu)), 1U);
  std::size_t requested = 0;
  const auto receive_to = [&](std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t i = first; i < end; ++i) {
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
    made.pkey = 0x8001;
    exchange({made});
  }
  EXPECT_TRUE(drain(mine.received()).empty());
  EXPECT_EQ(home.port().bad_pkeys(), 2U);
  EXPECT_EQ(mine.pair().diagnosis().drops.count(reason::partition_mismatch), 1U);
}

TEST_F(UnreliableEngine, notification_is_counted_and_has_no_effect) {
  static constexpr std::array<std::byte, congestion_payload_bytes> zeros{};
  packet made{.opcode = packet_opcode::congestion_notification};
  made.destination_qpn = mine.pair().number();
  made.payload = zeros;
  EXPECT_TRUE(exchange({made}).empty());
  EXPECT_EQ(out.counts[packet_event::notification_ignored], 1);
  EXPECT_EQ(post(opcode::rdma_write, 200 * mtu).size(), 200U);
}

TEST_F(UnreliableEngine, message_that_progresses_slowly_is_sent_completely) {
  constexpr std::uint32_t count = 20;
  out.room = 2;
  auto sent = post(opcode::rdma_write, count * mtu);
  for (int step = 0; step < 30 && sent.size() < count; ++step) {
    simulation::now += 300'000'000;
    home.progress();
    out.room = 2;
    for (sent_packet& each : transmit()) sent.push_back(std::move(each));
  }
  ASSERT_EQ(sent.size(), count);
  EXPECT_EQ(operation_of(sent.back().what.opcode), operation::write_last);
  EXPECT_EQ(mine.pair().diagnosis().drops.count(reason::path_full), 0U);
  expect_completion(completion_status::success);
}

TEST_F(UnreliableEngine, message_that_stops_for_1_s_is_dropped) {
  out.room = 2;
  EXPECT_EQ(post(opcode::rdma_write, 20 * mtu).size(), 2U);
  simulation::now += 300'000'000;
  out.room = 2;
  EXPECT_EQ(transmit().size(), 2U);
  simulation::now += 999'999'999;
  home.progress();
  EXPECT_EQ(mine.pair().diagnosis().drops.count(reason::path_full), 0U);
  simulation::now += 1;
  home.progress();
  EXPECT_EQ(mine.pair().diagnosis().drops.count(reason::path_full), 1U);
  EXPECT_TRUE(transmit().empty());
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
