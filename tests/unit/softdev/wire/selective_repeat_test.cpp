// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include "softdev/wire/engine/psn_set.hpp"
#include "softdev/wire/engine/reorder_queue.hpp"
#include "softdev/wire/engine/response_window.hpp"
#include "softdev/wire/engine/selective_packets.hpp"
#include "softdev/wire/engine/sequence.hpp"
#include "tests/unit/softdev/wire/lone_host.hpp"

namespace verbena::softdev::wire {
namespace {

TEST(psn_set, contains_all_before_the_first_and_the_inserted_ones) {
  psn_set some{.first = 0xff'fff0};
  EXPECT_EQ(some.end(), some.first);
  for (const std::uint32_t index : {1U, 63U, 64U, 127U}) some.insert(psn_plus(some.first, index));
  EXPECT_TRUE(some.contains(0xff'ffef));
  EXPECT_FALSE(some.contains(0xff'fff0));
  EXPECT_TRUE(some.contains(0xff'fff1));
  EXPECT_FALSE(some.contains(0xff'fff2));
  EXPECT_TRUE(some.contains(psn_plus(some.first, 63)));
  EXPECT_TRUE(some.contains(psn_plus(some.first, 64)));
  EXPECT_FALSE(some.contains(psn_plus(some.first, 128)));
  EXPECT_EQ(some.end(), psn_plus(some.first, 128));
  some.insert(psn_plus(some.first, 1023));
  EXPECT_EQ(some.end(), psn_plus(some.first, 1024));
  EXPECT_EQ(some.count_from(some.first), 5U);
  EXPECT_EQ(some.count_from(psn_plus(some.first, 63)), 4U);
  EXPECT_EQ(some.count_from(psn_plus(some.first, 65)), 2U);
  EXPECT_EQ(some.count_from(psn_plus(some.first, 1024)), 0U);
}

TEST(selective_packets, encoded_packet_is_parsed_with_the_same_set) {
  psn_set some{.first = 0xff'fff0};
  for (const std::uint32_t index : {2U, 70U, 127U}) some.insert(psn_plus(some.first, index));
  selective_payload payload;
  const packet made = make_selective_acknowledgement(some, base_reach, payload);
  std::vector<std::byte> bytes(encoded_bytes(made));
  ASSERT_NE(encode(made, bytes), 0U);
  packet parsed;
  ASSERT_EQ(parse(bytes, 256, parsed), packet_fault::none);
  ASSERT_TRUE(is_selective_acknowledgement(parsed));
  EXPECT_EQ(received_packets(parsed), some);
  EXPECT_FALSE(is_selective_offer(parsed));
}

TEST(selective_packets, report_of_a_larger_window_has_the_bits_that_it_needs) {
  psn_set some{.first = 0xff'fff0};
  selective_payload payload;
  for (const std::uint32_t index : {2U, 64U, 130U, 700U, 1023U}) {
    some.insert(psn_plus(some.first, index));
    const packet made = make_selective_acknowledgement(some, 1024, payload);
    EXPECT_EQ(made.payload.size(), 8 + 8 * (index / 64 + 1));
    ASSERT_TRUE(is_selective_acknowledgement(made));
    EXPECT_FALSE(is_window_grant(made));
    EXPECT_EQ(received_packets(made), some);
  }
}

TEST(selective_packets, offer_and_grant_of_a_window_are_recognized) {
  selective_payload payload;
  const packet offer = make_window_offer(7, payload);
  EXPECT_TRUE(is_window_offer(offer));
  EXPECT_FALSE(is_selective_offer(offer)) << "a device of version 1 ignores it";
  const packet grant = make_window_grant(9, 512, payload);
  EXPECT_TRUE(is_window_grant(grant));
  EXPECT_FALSE(is_selective_acknowledgement(grant));
  EXPECT_EQ(granted_reach(grant), 512U);
}

TEST(selective_packets, packet_of_another_vendor_is_recognized) {
  selective_payload payload;
  EXPECT_TRUE(is_selective_offer(make_selective_offer(7, payload)));
  payload[0] ^= std::byte{1};
  packet other = make_selective_offer(7, payload);
  EXPECT_TRUE(is_selective_offer(other)) << "the signature was written again";
  payload[0] ^= std::byte{1};
  EXPECT_FALSE(is_selective_offer(other));
  other.payload = {};
  EXPECT_FALSE(is_selective_offer(other));
}

TEST(reorder_pool, gives_at_most_the_maximum_number_of_buffers) {
  reorder_pool pool;
  std::vector<reorder_buffer*> some;
  for (std::size_t i = 0; i < reorder_pool::max_buffers; ++i) {
    some.push_back(pool.acquire());
    ASSERT_NE(some.back(), nullptr);
  }
  EXPECT_EQ(pool.acquire(), nullptr);
  pool.release(some.back());
  EXPECT_EQ(pool.acquire(), some.back());
  for (reorder_buffer* const each : some) pool.release(each);
}

/// Connections with larger windows cannot take all buffers.
TEST(reorder_pool, further_buffers_are_counted_separately) {
  reorder_pool pool;
  std::vector<reorder_buffer*> some;
  for (std::size_t i = 0; i < reorder_pool::max_buffers; ++i)
    some.push_back(pool.acquire(buffer_use::further));
  EXPECT_EQ(pool.acquire(buffer_use::further), nullptr);
  reorder_buffer* const first = pool.acquire();
  EXPECT_NE(first, nullptr);
  pool.release(first);
  for (reorder_buffer* const each : some) pool.release(each, buffer_use::further);
}

class SelectiveRepeat : public lone_host {
 protected:
  SelectiveRepeat()
      : lone_host(transport::rc, {.selective_repeat = true, .larger_windows = false}) {
    for (std::size_t i = 0; i < peer_memory.size(); ++i)
      peer_memory[i] = static_cast<std::byte>(i * 7 + 1);
    sink.fill(0, buffer_bytes, 1);
    attributes.max_rd_atomic = 4;
    attributes.max_dest_rd_atomic = 4;
    connect();
  }
  [[nodiscard]] packet of_peer(packet made) {
    made.destination_qpn = mine.pair().number();
    return made;
  }
  [[nodiscard]] packet offer() { return of_peer(make_selective_offer(psn(0), payload_)); }
  /// Returns a report of the peer that packet `first` of this host is missing, and that it has the
  /// packets `has`.
  [[nodiscard]] packet report(std::uint32_t first, std::initializer_list<std::uint32_t> has) {
    psn_set some{.first = sent_psn(first)};
    for (const std::uint32_t index : has) some.insert(sent_psn(index));
    return of_peer(make_selective_acknowledgement(some, base_reach, payload_));
  }
  [[nodiscard]] packet ack(std::uint32_t index) { return reply(operation::acknowledge, index); }
  /// Returns a request packet of the peer that does not request an acknowledgement.
  [[nodiscard]] packet quiet(std::uint32_t index) {
    packet made = request(operation::send_only, index, 8, std::size_t{index} * 8);
    made.ack_requested = false;
    return made;
  }
  /// Returns the indexes of the packets, which are requests of this host.
  [[nodiscard]] static std::vector<std::uint32_t> indexes(const std::vector<sent_packet>& some) {
    std::vector<std::uint32_t> made;
    made.reserve(some.size());
    for (const sent_packet& each : some) made.push_back((each.what.psn - own_psn) & psn_mask);
    return made;
  }
  using list = std::vector<std::uint32_t>;
  /// Expects one report: packet `first` of the peer is missing, and this host has packets `has`.
  void expect_report(const std::vector<sent_packet>& some, std::uint32_t first,
                     std::initializer_list<std::uint32_t> has) {
    ASSERT_EQ(some.size(), 1U);
    packet what = some[0].what;
    what.payload = some[0].payload;
    ASSERT_TRUE(is_selective_acknowledgement(what));
    EXPECT_EQ(what.destination_qpn, peer_qpn);
    psn_set expected{.first = psn(first)};
    for (const std::uint32_t index : has) expected.insert(psn(index));
    EXPECT_EQ(received_packets(what), expected);
  }
  void make_peer_selective() {
    for (int i = 0; i < 2; ++i) post(opcode::send, 8);
    exchange({report(0, {1})});
    exchange({ack(1)});
    static_cast<void>(drain(mine.sent()));
  }
  /// Measures a round trip of 10 us with packet `index`, so that there is an early timeout.
  void measure_round_trip(std::uint32_t index = 0) {
    post(opcode::send, 8);
    simulation::now += 10'000;
    exchange({ack(index)});
    static_cast<void>(drain(mine.sent()));
  }

 private:
  selective_payload payload_{};
};

TEST_F(SelectiveRepeat, requester_offers_it_with_the_first_retransmission) {
  post(opcode::rdma_write, 4 * mtu);
  const auto packets = exchange({reply(operation::acknowledge, 2, syndrome_sequence_error)});
  ASSERT_EQ(packets.size(), 3U);
  packet first = packets[0].what;
  first.payload = packets[0].payload;
  EXPECT_TRUE(is_selective_offer(first));
  EXPECT_EQ(first.destination_qpn, peer_qpn);
  EXPECT_EQ(indexes({packets[1], packets[2]}), (list{2, 3}));
}

TEST_F(SelectiveRepeat, requester_offers_it_after_a_timeout) {
  post(opcode::rdma_write, 4 * mtu);
  exchange({ack(1)});
  const auto packets = wait();
  ASSERT_EQ(packets.size(), 3U);
  EXPECT_EQ(packets[0].what.opcode, packet_opcode::selective_offer);
  EXPECT_EQ(packets[0].what.psn, sent_psn(2));
  EXPECT_EQ(indexes({packets[1], packets[2]}), (list{2, 3}));
}

TEST_F(SelectiveRepeat, requester_offers_it_a_limited_number_of_times) {
  post(opcode::rdma_write, 20 * mtu);
  std::size_t offers = 0;
  for (std::uint32_t i = 1; i < 20; ++i)
    for (const sent_packet& each :
         exchange({reply(operation::acknowledge, i, syndrome_sequence_error)}))
      offers += each.what.opcode == packet_opcode::selective_offer ? 1 : 0;
  EXPECT_EQ(offers, 8U);
}

TEST_F(SelectiveRepeat, offer_after_a_timeout_has_the_psn_after_a_read_that_the_peer_has) {
  constexpr std::uint32_t count = base_reach + 50;
  post(opcode::rdma_read, count * mtu);
  exchange({reply(operation::read_response_first, 0, syndrome_ack, mtu)});
  const auto packets = wait();
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_EQ(packets[0].what.opcode, packet_opcode::selective_offer);
  EXPECT_EQ(packets[0].what.psn, sent_psn(count));
  expect_packets({packets[1]}, sent_psn(1), {operation::read_request});
}

TEST_F(SelectiveRepeat, requester_keeps_its_offers_while_a_long_read_has_no_response) {
  attributes.retry_count = 7;
  mine.pair().modify({.state = queue_pair_state::reset}, attribute::state).value();
  connect();
  constexpr std::uint32_t count = base_reach;
  post(opcode::rdma_read, count * mtu);
  const auto offers = [this] {
    std::size_t found = 0;
    for (const sent_packet& each : wait())
      found += each.what.opcode == packet_opcode::selective_offer ? 1 : 0;
    return found;
  };
  for (int i = 0; i < 6; ++i) EXPECT_EQ(offers(), 0U);
  for (std::uint32_t i = 0; i < 8; ++i) {
    exchange({reply(operation::read_response_middle, i, syndrome_ack, mtu)});
    EXPECT_EQ(offers(), 1U) << i;
  }
}

TEST_F(SelectiveRepeat, queue_pair_in_err_does_not_offer_it) {
  post(opcode::rdma_write, 4 * mtu);
  mine.pair().modify({.state = queue_pair_state::error}, attribute::state).value();
  EXPECT_TRUE(wait().empty());
  EXPECT_EQ(out.counts[packet_event::timed_out], 0);
  EXPECT_TRUE(exchange({reply(operation::acknowledge, 2, syndrome_sequence_error)}).empty());
}

TEST_F(SelectiveRepeat, only_missing_packets_are_sent_again) {
  post(opcode::rdma_write, 12 * mtu);
  const auto packets = exchange({report(2, {3, 5, 6})});
  EXPECT_EQ(indexes(packets), (list{2, 4})) << "7 to 11 can be in flight";
  for (const sent_packet& each : packets) EXPECT_TRUE(each.what.ack_requested);
  EXPECT_EQ(std::memcmp(packets[1].payload.data(), sink.data() + 4 * std::size_t{mtu}, mtu), 0);
  EXPECT_EQ(out.counts[packet_event::retransmitted], 2);
  EXPECT_TRUE(exchange({report(2, {3, 5, 6, 7})}).empty()) << "2 and 4 are on their way";
  EXPECT_EQ(indexes(exchange({report(2, {3, 5, 6, 7, 9})})), (list{8}));
  EXPECT_TRUE(exchange({report(4, {5, 6, 7, 9, 10})}).empty());
  exchange({ack(11)});
  expect_completion(completion_status::success);
}

TEST_F(SelectiveRepeat, several_requests_are_sent_again_in_part) {
  for (int i = 0; i < 6; ++i) post(opcode::send, 8);
  EXPECT_EQ(indexes(exchange({report(1, {2, 4})})), (list{1, 3}));
  EXPECT_EQ(drain(mine.sent()).size(), 1U);
  EXPECT_EQ(indexes(post(opcode::send, 8)), (list{6}));
  exchange({ack(6)});
  EXPECT_EQ(drain(mine.sent()).size(), 6U);
}

TEST_F(SelectiveRepeat, read_that_the_peer_has_is_not_sent_again) {
  post(opcode::send, 8);             // 0
  post(opcode::rdma_read, 3 * mtu);  // 1, 2, 3
  post(opcode::send, 8);             // 4
  post(opcode::send, 8);             // 5
  EXPECT_EQ(indexes(exchange({report(0, {1, 5})})), (list{0, 4}));
  // Its response: the data of the first packets, then acknowledgements of the others.
  exchange({reply(operation::read_response_first, 1, syndrome_ack, mtu),
            reply(operation::read_response_middle, 2, syndrome_ack, mtu, mtu),
            reply(operation::read_response_last, 3, syndrome_ack, mtu, 2 * std::size_t{mtu}),
            ack(5)});
  EXPECT_EQ(drain(mine.sent()).size(), 4U);
  EXPECT_EQ(std::memcmp(sink.data(), peer_memory.data(), 3 * std::size_t{mtu}), 0);
}

TEST_F(SelectiveRepeat, missing_read_is_sent_again) {
  post(opcode::rdma_read, 3 * mtu);  // 0, 1, 2
  post(opcode::send, 8);             // 3
  const auto packets = exchange({report(0, {3})});
  ASSERT_EQ(indexes(packets), (list{0}));
  EXPECT_EQ(packets[0].name(), operation::read_request);
}

TEST_F(SelectiveRepeat, each_lost_part_of_a_read_is_asked_for_once) {
  make_peer_selective();
  post(opcode::rdma_read, 8 * mtu);  // 2 to 9
  const auto data = [this](std::uint32_t index) {
    return reply(operation::read_response_middle, index + 2, syndrome_ack, mtu,
                 std::size_t{index} * mtu);
  };
  auto packets = exchange({data(2)});
  expect_packets(packets, sent_psn(2), {operation::read_request});
  EXPECT_EQ(packets[0].what.remote.length, 2 * mtu);
  EXPECT_TRUE(exchange({data(3), data(2)}).empty());
  packets = exchange({data(5)});
  expect_packets(packets, sent_psn(6), {operation::read_request});
  EXPECT_EQ(packets[0].what.remote, (remote_range{0x10'0000 + 4 * mtu, 0x77, mtu}));
  // The responses of the parts, and the end of the first response.
  packet end_of_part = data(1);
  end_of_part.opcode = make_opcode(packet_transport::rc, operation::read_response_last);
  packet part = data(4);
  part.opcode = make_opcode(packet_transport::rc, operation::read_response_only);
  packet last = data(7);
  last.opcode = make_opcode(packet_transport::rc, operation::read_response_last);
  EXPECT_TRUE(exchange({data(6), last, data(0), end_of_part}).empty());
  EXPECT_TRUE(drain(mine.sent()).empty());
  exchange({part});
  expect_completion(completion_status::success, 2);
  EXPECT_EQ(std::memcmp(sink.data(), peer_memory.data(), 8 * std::size_t{mtu}), 0);
}

TEST_F(SelectiveRepeat, atomic_operation_is_asked_for_once_after_a_lost_response) {
  make_peer_selective();
  post(opcode::rdma_read, mtu);                       // 2
  post(opcode::fetch_add, 8);                         // 3
  for (int i = 0; i < 4; ++i) post(opcode::send, 8);  // 4 to 7
  EXPECT_EQ(indexes(exchange({ack(4)})), (list{2, 3}));
  EXPECT_EQ(indexes(exchange({report(6, {7})})), (list{6})) << "2 and 3 are on their way";
}

TEST_F(SelectiveRepeat, read_that_the_peer_has_not_executed_is_asked_for_as_a_whole) {
  make_peer_selective();
  measure_round_trip(2);
  constexpr std::uint32_t count = response_window::capacity + 8;
  simulation::memory large(home, std::size_t{count} * mtu);
  for (int i = 0; i < 2; ++i) post(opcode::send, 8);  // 3, 4
  const send_request read{.opcode = opcode::rdma_read, .flags = send_flag::signaled};
  EXPECT_TRUE(mine.post(read, {large.slice(0, count * mtu)}));  // from 5 on
  EXPECT_EQ(indexes(transmit()), (list{5}));
  EXPECT_EQ(indexes(exchange({report(3, {4})})), (list{3}));
  std::vector<sent_packet> packets;
  while (packets.empty()) packets = wait();
  ASSERT_EQ(indexes(packets), (list{3, 5}));
  EXPECT_EQ(packets[1].what.remote.length, count * mtu);
}

TEST_F(SelectiveRepeat, lost_last_packet_is_found_by_a_probe) {
  measure_round_trip();
  post(opcode::rdma_write, 4 * mtu);  // 1 to 4
  EXPECT_EQ(indexes(exchange({report(2, {3})})), (list{2}));
  exchange({ack(4)});
  expect_completion(completion_status::success, 1);
  post(opcode::rdma_write, 4 * mtu);  // 5 to 8
  const time_ns start = simulation::now;
  std::vector<sent_packet> packets;
  while (packets.empty()) packets = wait();
  EXPECT_EQ(indexes(packets), (list{8}));
  EXPECT_TRUE(packets[0].what.ack_requested);
  EXPECT_LE(simulation::now - start, 1'000'000U);
  EXPECT_EQ(indexes(exchange({report(6, {8})})), (list{6, 7}));
  exchange({ack(8)});
  expect_completion(completion_status::success, 2);
}

TEST_F(SelectiveRepeat, all_packets_are_sent_again_without_answer_to_the_probe) {
  measure_round_trip();
  post(opcode::rdma_write, 4 * mtu);  // 1 to 4
  exchange({report(2, {3})});
  exchange({ack(4)});
  post(opcode::rdma_write, 4 * mtu);  // 5 to 8
  std::vector<sent_packet> packets;
  while (packets.empty()) packets = wait();
  EXPECT_EQ(indexes(packets), (list{8}));
  EXPECT_EQ(indexes(wait()), (list{5, 6, 7, 8}));
}

TEST_F(SelectiveRepeat, retransmission_that_is_lost_is_repeated_after_a_timeout) {
  measure_round_trip();
  post(opcode::rdma_write, 6 * mtu);  // 1 to 6
  EXPECT_EQ(indexes(exchange({report(1, {2, 4})})), (list{1, 3}));
  std::vector<sent_packet> packets;
  while (packets.empty()) packets = wait();
  EXPECT_EQ(indexes(packets), (list{1, 3})) << "5 and 6 can be in flight";
  EXPECT_EQ(indexes(wait()), (list{1, 2, 3, 4, 5, 6})) << "the responder can drop packets";
}

TEST_F(SelectiveRepeat, ack_timeout_sends_all_packets_again) {
  post(opcode::rdma_write, 6 * mtu);
  exchange({report(0, {1, 4})});
  EXPECT_EQ(indexes(wait()), (list{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(out.counts[packet_event::timed_out], 1);
}

TEST_F(SelectiveRepeat, rnr_nak_sends_all_packets_again) {
  post(opcode::rdma_write, 6 * mtu);
  exchange({report(0, {1, 4})});
  EXPECT_TRUE(exchange({reply(operation::acknowledge, 0, syndrome_rnr_nak | 4U)}).empty());
  EXPECT_EQ(indexes(wait()), (list{0, 1, 2, 3, 4, 5}));
}

TEST_F(SelectiveRepeat, report_of_packets_that_were_not_sent_changes_nothing) {
  post(opcode::rdma_write, 4 * mtu);
  EXPECT_TRUE(exchange({report(4, {5, 6})}).empty());
  EXPECT_TRUE(exchange({report(40, {})}).empty());
  EXPECT_EQ(indexes(exchange({report(1, {2, 3, 9, 100})})), (list{1}));
  EXPECT_EQ(indexes(post(opcode::send, 8)), (list{4})) << "a new packet is not skipped";
}

TEST_F(SelectiveRepeat, packets_after_a_gap_are_kept_and_executed_in_order) {
  post_receives(4);
  EXPECT_TRUE(exchange({offer()}).empty());
  expect_report(exchange({quiet(1), quiet(2)}), 0, {1, 2});
  EXPECT_TRUE(drain(mine.received()).empty());
  std::memset(peer_memory.data() + 8, 0, 16);  // the packets were copied
  expect_answer(exchange({quiet(0)}), 2, syndrome_ack, 3);
  const auto done = drain(mine.received());
  ASSERT_EQ(done.size(), 3U);
  for (std::size_t i = 0; i < done.size(); ++i) EXPECT_EQ(done[i].wr_id, i);
  // All receives have the same buffer: it contains the bytes of the last message.
  EXPECT_EQ(std::to_integer<unsigned>(sink.data()[0]), (16U * 7 + 1) % 256);
}

TEST_F(SelectiveRepeat, report_follows_a_further_gap_or_an_ack_request) {
  post_receives(8);
  exchange({offer()});
  expect_report(exchange({quiet(1)}), 0, {1});
  EXPECT_TRUE(exchange({quiet(2)}).empty());
  expect_report(exchange({quiet(4)}), 0, {1, 2, 4});
  expect_report(exchange({request(operation::send_only, 5, 8)}), 0, {1, 2, 4, 5});
  expect_report(exchange({quiet(0)}), 3, {4, 5});
  expect_answer(exchange({quiet(3)}), 5, syndrome_ack, 6);
  EXPECT_TRUE(exchange({quiet(6)}).empty()) << "there is no gap";
  EXPECT_EQ(drain(mine.received()).size(), 7U);
}

TEST_F(SelectiveRepeat, gaps_that_close_in_part_within_a_batch_are_reported) {
  post_receives(8);
  exchange({offer()});
  expect_report(exchange({quiet(1), quiet(3), quiet(0)}), 2, {3});
  EXPECT_TRUE(exchange({quiet(5), quiet(2), quiet(4)}).size() == 1U);
  EXPECT_EQ(drain(mine.received()).size(), 6U);
}

TEST_F(SelectiveRepeat, packet_beyond_the_buffer_is_dropped) {
  exchange({offer()});
  expect_answer(exchange({quiet(128)}), 0, syndrome_sequence_error, 0);
  post_receives(1);
  expect_answer(exchange({request(operation::send_only, 0, 8)}), 0, syndrome_ack, 1);
}

TEST_F(SelectiveRepeat, kept_packet_without_receive_request_gets_rnr_nak_and_is_sent_again) {
  post_receives(1);
  exchange({offer()});
  exchange({quiet(1), quiet(2)});
  expect_answer(exchange({quiet(0)}), 1, syndrome_rnr_nak | 4U, 1);
  EXPECT_TRUE(exchange({quiet(3)}).empty()) << "the peer waits, and sends packet 1 again";
  post_receives(3);
  expect_answer(exchange({request(operation::send_only, 1, 8)}), 1, syndrome_ack, 2);
  exchange({quiet(2), quiet(3)});
  EXPECT_EQ(drain(mine.received()).size(), 4U);
}

TEST_F(SelectiveRepeat, refused_kept_packet_ends_the_connection) {
  post_receives(3);
  exchange({offer()});
  packet bad = remote(operation::write_only, 1, 8, 8);
  bad.remote.key ^= 1U;
  exchange({bad, quiet(2)});
  expect_answer(exchange({quiet(0)}), 1, syndrome_access_error, 1);
  EXPECT_EQ(mine.pair().state(), queue_pair_state::error);
  const auto done = drain(mine.received());
  ASSERT_FALSE(done.empty());
  EXPECT_EQ(done[0].status, completion_status::success);
  for (std::size_t i = 1; i < done.size(); ++i)
    EXPECT_EQ(done[i].status, completion_status::flushed);
}

TEST_F(SelectiveRepeat, kept_read_is_answered_before_a_kept_write) {
  post_receives(1);
  exchange({offer()});
  const std::vector<std::byte> before(target.data(), target.data() + mtu);
  packet read = remote(operation::read_request, 1, mtu);
  exchange({read, remote(operation::write_only, 2, mtu, mtu)});
  const auto answers = exchange({quiet(0)});
  ASSERT_GE(answers.size(), 2U);
  EXPECT_EQ(answers[0].name(), operation::read_response_only);
  EXPECT_EQ(std::memcmp(answers[0].payload.data(), before.data(), mtu), 0);
  EXPECT_EQ(std::memcmp(target.data(), peer_memory.data(), mtu), 0);
}

TEST_F(SelectiveRepeat, duplicate_during_a_gap_is_answered_by_a_report) {
  post_receives(4);
  exchange({offer(), quiet(0), quiet(2)});
  expect_report(exchange({request(operation::send_only, 0, 8)}), 1, {2});
}

TEST_F(SelectiveRepeat, kept_packet_that_gets_no_answer_is_dropped) {
  post_receives(3);
  exchange({offer(), quiet(1), quiet(2)});
  home.port().set_pkey(0, 0x8001);
  const auto with_new_key = [this](std::uint32_t index) {
    packet made = request(operation::send_only, index, 8);
    made.pkey = 0x8001;
    return made;
  };
  exchange({with_new_key(0)});
  EXPECT_EQ(drain(mine.received()).size(), 1U);
  exchange({with_new_key(1), with_new_key(2)});
  EXPECT_EQ(drain(mine.received()).size(), 2U) << "the peer has sent them again";
}

TEST_F(SelectiveRepeat, queue_pair_in_error_releases_its_kept_packets) {
  std::vector<std::unique_ptr<simulation::end>> others;
  const auto with_gap = [this](simulation::end& which) {
    packet made = offer();
    made.destination_qpn = which.pair().number();
    std::vector<packet> some{made, quiet(1)};
    some[1].destination_qpn = made.destination_qpn;
    return some;
  };
  for (std::size_t i = 0; i < reorder_pool::max_buffers; ++i) {
    others.push_back(std::make_unique<simulation::end>(home));
    others.back()->connect(attributes);
    expect_report(exchange(with_gap(*others.back())), 0, {1});
  }
  expect_answer(exchange(with_gap(mine)), 0, syndrome_sequence_error, 0);
  others.back()->pair().modify({.state = queue_pair_state::error}, attribute::state).value();
  transmit();
  expect_report(exchange({quiet(3)}), 0, {3});
}

TEST_F(SelectiveRepeat, dropped_packet_that_was_reported_is_sent_again) {
  measure_round_trip();
  for (int i = 0; i < 3; ++i) post(opcode::send, 8);  // 1 to 3
  EXPECT_EQ(indexes(exchange({report(1, {2, 3})})), (list{1}));
  exchange({ack(1)});  // and an RNR NAK for packet 2, which is lost
  EXPECT_EQ(indexes(wait()), (list{2, 3}));
}

TEST_F(SelectiveRepeat, response_that_arrives_while_the_read_waits_for_room_completes_it) {
  post(opcode::send, 8);         // 0
  post(opcode::send, 8);         // 1
  post(opcode::rdma_read, mtu);  // 2
  out.room = 0;
  exchange({report(0, {1, 2})});
  exchange({reply(operation::read_response_only, 2, syndrome_ack, mtu)});
  out.room = kept_output::plenty;
  EXPECT_TRUE(transmit().empty()) << "the response acknowledges the other packets";
  EXPECT_EQ(drain(mine.sent()).size(), 3U);
  EXPECT_EQ(std::memcmp(sink.data(), peer_memory.data(), mtu), 0);
  EXPECT_EQ(out.counts[packet_event::timed_out], 0);
}

TEST_F(SelectiveRepeat, report_counts_while_a_complete_request_waits_for_room) {
  for (int i = 0; i < 6; ++i) post(opcode::send, 8);
  out.room = 0;
  EXPECT_TRUE(exchange({report(0, {1})}).empty());
  EXPECT_TRUE(exchange({report(1, {3, 5})}).empty()) << "request 0 waits to be submitted again";
  out.room = kept_output::plenty;
  EXPECT_EQ(indexes(transmit()), (list{1, 2, 4}));
  EXPECT_EQ(drain(mine.sent()).size(), 1U);
  exchange({ack(5)});
  EXPECT_EQ(drain(mine.sent()).size(), 5U);
}

TEST_F(SelectiveRepeat, probe_passes_a_window_that_has_shrunk) {
  measure_round_trip();
  post(opcode::rdma_write, 20 * mtu);  // 1 to 20
  exchange({report(1, {2})});
  exchange({ack(2)});
  packet notification{.opcode = packet_opcode::congestion_notification};
  static constexpr std::array<std::byte, congestion_payload_bytes> zeros{};
  notification.payload = zeros;
  for (int i = 0; i < 20; ++i) {
    exchange({of_peer(notification)});
    exchange({ack(static_cast<std::uint32_t>(i) % 18 + 2)});
  }
  post(opcode::rdma_write, 1);  // 21
  std::vector<sent_packet> packets;
  while (packets.empty()) packets = wait();
  EXPECT_EQ(packets.size(), 1U);
}

TEST_F(SelectiveRepeat, report_without_received_packets_is_a_nak) {
  post(opcode::rdma_write, 4 * mtu);
  EXPECT_EQ(indexes(exchange({report(1, {})})), (list{1, 2, 3}));
}

TEST_F(SelectiveRepeat, bit_of_the_missing_packet_is_ignored) {
  post(opcode::rdma_write, 4 * mtu);
  EXPECT_EQ(indexes(exchange({report(1, {1, 2})})), (list{1}));
}

TEST_F(SelectiveRepeat, report_during_an_rnr_wait_has_no_effect) {
  post(opcode::rdma_write, 4 * mtu);
  exchange({reply(operation::acknowledge, 0, syndrome_rnr_nak | 4U)});
  EXPECT_TRUE(exchange({report(0, {1, 2})}).empty());
  EXPECT_EQ(indexes(wait()), (list{0, 1, 2, 3}));
}

TEST_F(SelectiveRepeat, offer_of_an_earlier_connection_is_ignored) {
  packet old = offer();
  old.psn = psn(1000);
  exchange({old});
  expect_answer(exchange({quiet(1)}), 0, syndrome_sequence_error, 0);
}

TEST_F(SelectiveRepeat, offer_of_another_partition_or_vendor_is_ignored) {
  packet foreign = offer();
  foreign.pkey = 0x8001;
  exchange({foreign});
  packet other = offer();
  other.payload = other.payload.first(4);
  exchange({other});
  expect_answer(exchange({quiet(1)}), 0, syndrome_sequence_error, 0);
}

class GoBackN : public lone_host {
 protected:
  GoBackN() { connect(); }
};

TEST_F(GoBackN, engine_without_selective_repeat_ignores_its_packets) {
  selective_payload payload;
  packet made = make_selective_offer(peer_psn, payload);
  made.destination_qpn = mine.pair().number();
  exchange({made});
  expect_answer(exchange({request(operation::send_only, 1, 8)}), 0, syndrome_sequence_error, 0);
  post(opcode::rdma_write, 4 * mtu);
  psn_set some{.first = sent_psn(1)};
  some.insert(sent_psn(2));
  made = make_selective_acknowledgement(some, base_reach, payload);
  made.destination_qpn = mine.pair().number();
  EXPECT_TRUE(exchange({made}).empty());
}

}  // namespace
}  // namespace verbena::softdev::wire
