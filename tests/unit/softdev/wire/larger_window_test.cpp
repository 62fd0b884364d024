// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "softdev/wire/engine/packet_requester.hpp"
#include "softdev/wire/engine/selective_packets.hpp"
#include "softdev/wire/engine/sent_requests.hpp"
#include "tests/unit/softdev/wire/lone_host.hpp"
#include "tests/unit/softdev/wire/simulation/transfer.hpp"

namespace verbena::softdev::wire {
namespace {

using simulation::run_transfer;
using simulation::transfer_result;
using simulation::transfer_setting;

constexpr std::uint32_t whole_packet = 4160;

/// A path with a round-trip time of 10 ms that 1,024 packets of 4096 bytes fill. Its queue has room
/// for 64 packets.
transfer_setting long_path() {
  transfer_setting made;
  made.faults.rate_unit = 4096;
  made.faults.delay = 5'000'000;
  made.faults.narrow = {.bytes_per_us = 420, .queue_bytes = 64 * whole_packet};
  made.requests = 96;
  return made;
}

/// Runs the setting with the base window and with larger ones. Expects no more lost packets.
struct both_windows {
  explicit both_windows(transfer_setting what) {
    what.hosts.larger_windows = false;
    const transfer_result base = run_transfer(what);
    what.hosts.larger_windows = true;
    const transfer_result larger = run_transfer(what);
    EXPECT_TRUE(base.is_right);
    EXPECT_TRUE(larger.is_right);
    EXPECT_LE(larger.dropped, base.dropped);
    EXPECT_LE(larger.timeouts, base.timeouts);
    EXPECT_LE(larger.first_burst, packet_requester::window);
    before = base.goodput(what);
    after = larger.goodput(what);
    late_burst = larger.late_burst;
  }
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  std::uint64_t late_burst = 0;
};

TEST(larger_window, long_path_is_used) {
  const both_windows goodput(long_path());
  EXPECT_GT(goodput.after, 4 * goodput.before);
}

TEST(larger_window, losses_cost_less) {
  for (const std::uint32_t loss : {1U, 41U}) {
    SCOPED_TRACE(loss);
    transfer_setting lossy = long_path();
    lossy.faults.loss = loss;
    lossy.requests = 48;
    const both_windows goodput(lossy);
    EXPECT_GT(goodput.after, goodput.before);
  }
}

TEST(larger_window, reordering_costs_no_more) {
  transfer_setting reordered = long_path();
  reordered.faults.reordering = 41;
  reordered.faults.longest_detour = 1'000'000;
  reordered.requests = 48;
  const both_windows goodput(reordered);
  EXPECT_GE(goodput.after, goodput.before);
}

TEST(larger_window, narrow_links_with_short_queues_lose_no_more) {
  struct link {
    std::uint32_t bytes_per_us;
    std::uint32_t queue;
    time_ns delay;
    std::uint32_t requests;
  };
  for (const link& each : std::vector<link>{{125, 64, 5'000'000, 24},
                                            {125, 16, 5'000'000, 8},
                                            {125, 128, 5'000'000, 24},
                                            {125, 64, 500'000, 16},
                                            {125, 128, 500'000, 16},
                                            {12, 128, 5'000'000, 8},
                                            {12, 64, 5'000'000, 8},
                                            {12, 128, 500'000, 8}}) {
    SCOPED_TRACE(each.bytes_per_us);
    SCOPED_TRACE(each.queue);
    SCOPED_TRACE(each.delay);
    transfer_setting narrow = long_path();
    narrow.faults.delay = each.delay;
    narrow.faults.narrow = {each.bytes_per_us, each.queue * whole_packet};
    narrow.requests = each.requests;
    const both_windows goodput(narrow);
    EXPECT_GE(goodput.after, goodput.before);
  }
}

TEST(larger_window, several_reads_use_it) {
  transfer_setting reads = long_path();
  reads.kind = opcode::rdma_read;
  reads.faults.narrow = {};
  reads.bytes = 65536;
  reads.requests = 512;
  const both_windows goodput(reads);
  EXPECT_GT(goodput.after * 2, goodput.before * 3);
}

TEST(larger_window, window_is_the_base_after_an_idle_time) {
  transfer_setting idle = long_path();
  idle.pause_after_half = 100'000'000;
  const both_windows run(idle);
  EXPECT_GT(run.late_burst, 0U);
  EXPECT_LE(run.late_burst, packet_requester::window);
}

TEST(sent_requests, enlarged_ring_keeps_its_requests) {
  sent_requests ring;
  ring.begin(psn_mask - 3);
  for (std::uint32_t i = 0; i < 100; ++i) ring.push({.psn = i}, 1);
  ring.set_live(100);
  for (std::uint32_t i = 0; i < 50; ++i) ring.pop();
  for (std::uint32_t i = 100; !ring.is_full(); ++i) ring.push({.psn = i}, 1);
  EXPECT_EQ(ring.count(), sent_requests::initial_capacity);
  ASSERT_TRUE(ring.enlarge());
  EXPECT_FALSE(ring.enlarge());
  EXPECT_FALSE(ring.is_full());
  EXPECT_EQ(ring.live(), 50U);
  for (std::uint32_t i = 0; i < ring.count(); ++i) EXPECT_EQ(ring[i].number, 50 + i);
  EXPECT_EQ(ring.first_psn(), psn_plus(psn_mask - 3, 50));
  while (!ring.is_full()) ring.push({}, 1);
  EXPECT_EQ(ring.count(), sent_requests::largest_capacity);
}

class LargerWindow : public lone_host {
 protected:
  static constexpr time_ns round_trip = 10'000'000;

  LargerWindow() : lone_host(transport::rc, {}) {
    attributes.timeout = 20;
    connect();
  }
  [[nodiscard]] packet of_peer(packet made) {
    made.destination_qpn = mine.pair().number();
    return made;
  }
  [[nodiscard]] packet offer(std::uint32_t expected) {
    return of_peer(make_window_offer(psn(expected), payload_));
  }
  [[nodiscard]] packet grant(std::uint32_t expected, std::uint32_t reach) {
    return of_peer(make_window_grant(sent_psn(expected), reach, payload_));
  }
  [[nodiscard]] static packet whole(const sent_packet& what) {
    packet made = what.what;
    made.payload = what.payload;
    return made;
  }
  [[nodiscard]] static std::vector<packet> offers(const std::vector<sent_packet>& some) {
    std::vector<packet> found;
    for (const sent_packet& each : some)
      if (is_window_offer(whole(each))) found.push_back(whole(each));
    return found;
  }
  /// Posts a WRITE that is longer than the window. The path takes `time` for a round trip, and then
  /// all packets that were sent are acknowledged. Returns the packets that follow.
  [[nodiscard]] std::vector<sent_packet> exceed_window(time_ns time) {
    static_cast<void>(post(opcode::rdma_write, 200 * mtu));
    simulation::now += time;
    const auto more = exchange({reply(operation::acknowledge, done_ + 127)});
    simulation::now += time;
    exchange({reply(operation::acknowledge, done_ + 199)});
    done_ += 200;
    static_cast<void>(drain(mine.sent()));
    return more;
  }

  /// Advances the time to the next packets.
  [[nodiscard]] std::vector<sent_packet> wait_for_packets() {
    for (int waits = 0; waits < 100; ++waits)
      if (auto packets = wait(); !packets.empty()) return packets;
    return {};
  }
  /// Advances the time. Returns the index after the last packet that was sent.
  [[nodiscard]] std::uint32_t send_for(time_ns time) {
    const time_ns end = simulation::now + time;
    while (engine_of_packets.next_deadline() < end) note(wait());
    simulation::now = end;
    return end_;
  }
  void note(const std::vector<sent_packet>& some) {
    for (const sent_packet& each : some)
      end_ = std::max(end_, ((each.what.psn - own_psn) & psn_mask) + 1);
  }

  std::uint32_t done_ = 0;
  std::uint32_t end_ = 0;  ///< see note()

 private:
  selective_payload payload_{};
};

TEST_F(LargerWindow, requester_asks_for_it_if_the_window_limits_an_empty_path) {
  const auto packets = exceed_window(round_trip);
  const auto found = offers(packets);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].psn, sent_psn(128));
  EXPECT_EQ(found[0].destination_qpn, peer_qpn);
  EXPECT_EQ(packets.size(), 73U) << "the window stays the same";
}

TEST_F(LargerWindow, requester_does_not_ask_if_packets_wait_in_queues) {
  post(opcode::send, 8);
  simulation::now += round_trip;
  exchange({reply(operation::acknowledge, 0)});
  done_ = 1;
  EXPECT_TRUE(offers(exceed_window(2 * round_trip)).empty());
}

TEST_F(LargerWindow, requester_asks_on_a_longer_route_after_an_idle_time) {
  post(opcode::send, 8);
  simulation::now += round_trip;
  exchange({reply(operation::acknowledge, 0)});
  done_ = 1;
  simulation::now += 2 * round_trip;
  EXPECT_EQ(offers(exceed_window(2 * round_trip)).size(), 1U);
}

TEST_F(LargerWindow, requester_does_not_ask_if_the_window_has_room) {
  for (std::uint32_t i = 0; i < 4; ++i) {
    post(opcode::rdma_write, 100 * mtu);
    simulation::now += round_trip;
    EXPECT_TRUE(offers(exchange({reply(operation::acknowledge, i * 100 + 99)})).empty());
  }
}

TEST_F(LargerWindow, peer_that_does_not_answer_is_asked_four_times) {
  std::size_t count = 0;
  for (int i = 0; i < 10; ++i) {
    const auto packets = exceed_window(round_trip);
    count += offers(packets).size();
    EXPECT_EQ(packets.size() - offers(packets).size(), 72U);
  }
  EXPECT_EQ(count, 4U);
}

TEST_F(LargerWindow, granted_window_is_not_asked_for_again) {
  EXPECT_EQ(offers(exceed_window(round_trip)).size(), 1U);
  exchange({grant(200, 1024)});
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(post(opcode::rdma_write, 200 * mtu));
    for (int waits = 0; waits < 100 && drain(mine.sent()).empty(); ++waits) {
      const auto packets = wait();
      EXPECT_TRUE(offers(packets).empty());
      for (const sent_packet& each : packets)
        if (each.what.ack_requested)
          exchange({reply(operation::acknowledge, (each.what.psn - own_psn) & psn_mask)});
    }
  }
}

TEST_F(LargerWindow, last_packet_is_a_probe_after_a_grant) {
  EXPECT_EQ(offers(exceed_window(round_trip)).size(), 1U);
  exchange({grant(200, 1024)});
  EXPECT_EQ(post(opcode::rdma_write, 4 * mtu).size(), 4U);  // 200 to 203
  const auto packets = wait_for_packets();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].what.psn, sent_psn(203));
  EXPECT_TRUE(packets[0].what.ack_requested);
}

TEST_F(LargerWindow, probe_passes_a_full_window) {
  EXPECT_EQ(offers(exceed_window(round_trip)).size(), 1U);
  exchange({grant(200, 1024)});
  constexpr std::uint32_t requests = 10;
  for (std::uint32_t i = 0; i < requests; ++i) note(post(opcode::rdma_write, 200 * mtu));
  for (int round = 0; round < 5; ++round) {
    const std::uint32_t before = done_;
    done_ = send_for(round_trip);
    EXPECT_GT(done_ - before, packet_requester::window - 1);
    note(exchange({reply(operation::acknowledge, done_ - 1)}));
  }
  const std::uint32_t end = send_for(round_trip);
  ASSERT_GT(end - done_, 2 * packet_requester::window);
  const auto packets = wait_for_packets();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].what.psn, sent_psn(end - 1));
}

TEST_F(LargerWindow, grant_of_an_earlier_connection_is_ignored) {
  static_cast<void>(post(opcode::rdma_write, 200 * mtu));
  exchange({grant(5000, 1024), grant(0x80'0000, 1024)});
  simulation::now += round_trip;
  EXPECT_EQ(offers(exchange({reply(operation::acknowledge, 127)})).size(), 1U);
}

TEST_F(LargerWindow, responder_grants_it_and_keeps_packets_far_ahead) {
  post_receives(1);
  const auto granted = exchange({offer(0)});
  ASSERT_EQ(granted.size(), 1U);
  ASSERT_TRUE(is_window_grant(whole(granted[0])));
  EXPECT_EQ(granted_reach(whole(granted[0])), 1024U);
  EXPECT_EQ(granted[0].what.psn, psn(0));
  const auto far = [this](std::uint32_t index) {
    packet made = request(operation::send_only, index, 8);
    made.ack_requested = false;
    return made;
  };
  const auto report = exchange({far(1000)});
  ASSERT_EQ(report.size(), 1U);
  ASSERT_TRUE(is_selective_acknowledgement(whole(report[0])));
  psn_set expected{.first = psn(0)};
  expected.insert(psn(1000));
  EXPECT_EQ(received_packets(whole(report[0])), expected);
  EXPECT_TRUE(exchange({far(1024)}).empty()) << "too far ahead";
}

TEST_F(LargerWindow, offer_of_an_earlier_connection_is_ignored) {
  EXPECT_TRUE(exchange({offer(1), offer(100'000)}).empty());
}

class BaseWindow : public lone_host {
 protected:
  BaseWindow() : lone_host(transport::rc, {.larger_windows = false}) { connect(); }
};

TEST_F(BaseWindow, engine_without_larger_windows_ignores_their_packets) {
  selective_payload payload;
  packet made = make_window_offer(psn(0), payload);
  made.destination_qpn = mine.pair().number();
  EXPECT_TRUE(exchange({made}).empty());
  EXPECT_EQ(post(opcode::rdma_write, 200 * mtu).size(), packet_requester::window);
  made = make_window_grant(sent_psn(0), 1024, payload);
  made.destination_qpn = mine.pair().number();
  EXPECT_TRUE(exchange({made}).empty());
  simulation::now += 1'000'000;
  EXPECT_EQ(exchange({reply(operation::acknowledge, 127)}).size(), 72U);
}

}  // namespace
}  // namespace verbena::softdev::wire
