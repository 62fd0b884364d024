// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/packet_requester.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "softdev/core/attributes.hpp"
#include "tests/unit/softdev/wire/lone_host.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::softdev::wire {
namespace {

class RequestStream : public lone_host {
 protected:
  explicit RequestStream(std::uint8_t retry_count = 2) {
    attributes.retry_count = retry_count;
    sink.fill(0, buffer_bytes, 1);
    connect();
  }
  [[nodiscard]] packet ack(std::uint32_t index) { return reply(operation::acknowledge, index); }
  [[nodiscard]] packet nak(std::uint32_t index, std::uint8_t syndrome) {
    return reply(operation::acknowledge, index, syndrome);
  }
  [[nodiscard]] bool holds(const sent_packet& which, std::size_t offset) {
    return std::memcmp(which.payload.data(), sink.data() + offset, which.payload.size()) == 0;
  }
  /// Expects completions of the requests 0, 1, … with these statuses, and no others.
  void expect_completions(const std::vector<completion_status>& all) {
    const auto done = drain(mine.sent());
    ASSERT_EQ(done.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(done[i].wr_id, i);
      EXPECT_EQ(done[i].status, all[i]) << i;
    }
  }
};

class StreamWithoutRetries : public RequestStream {
 protected:
  StreamWithoutRetries() : RequestStream(0) {}
};

// parity: rocev2-26
TEST_F(RequestStream, send_is_divided_by_the_path_mtu) {
  const auto packets = post(opcode::send_with_imm, 2 * mtu + 5, send_flag::solicited);
  expect_packets(packets, own_psn,
                 {operation::send_first, operation::send_middle, operation::send_last_with_imm});
  EXPECT_FALSE(packets[0].what.ack_requested);
  EXPECT_FALSE(packets[0].what.solicited);
  EXPECT_TRUE(packets[2].what.ack_requested);
  EXPECT_TRUE(packets[2].what.solicited);
  EXPECT_EQ(packets[2].what.immediate, network_order(std::uint32_t{0x1234}));
  EXPECT_EQ(packets[2].payload.size(), 5U);
  EXPECT_TRUE(holds(packets[1], mtu));
  EXPECT_TRUE(drain(mine.sent()).empty());
  exchange({ack(2)});
  expect_completion(completion_status::success);
}

// parity: rocev2-56
TEST_F(RequestStream, one_acknowledgement_completes_all_requests_before_it) {
  for (int i = 0; i < 3; ++i) post(opcode::send, 8);
  exchange({ack(1)});
  EXPECT_EQ(drain(mine.sent()).size(), 2U);
  exchange({ack(1), ack(0)});  // late duplicates
  EXPECT_TRUE(drain(mine.sent()).empty());
  exchange({ack(2)});
  EXPECT_EQ(drain(mine.sent()).size(), 1U);
}

// parity: rocev2-57
TEST_F(RequestStream, acknowledgement_of_what_was_not_sent_is_ignored) {
  post(opcode::send, 8);
  exchange({ack(1), ack(100)});
  EXPECT_TRUE(drain(mine.sent()).empty());
}

// parity: rocev2-58
TEST_F(RequestStream, no_more_packets_than_the_window_are_sent) {
  auto packets = post(opcode::send, 200 * mtu);
  EXPECT_EQ(packets.size(), packet_requester::window);
  packets = exchange({ack(15)});
  ASSERT_EQ(packets.size(), 16U);
  EXPECT_EQ(packets[0].what.psn, sent_psn(packet_requester::window));
  EXPECT_EQ(packets[0].name(), operation::send_middle);
  EXPECT_TRUE(holds(packets[0], std::size_t{packet_requester::window} * mtu));
  std::uint32_t acknowledged = 143;
  while (drain(mine.sent()).empty()) {
    ASSERT_LT(acknowledged, 400U);
    exchange({ack(std::min(acknowledged, 199U))});
    acknowledged += 64;
  }
}

// parity: rocev2-58
TEST_F(RequestStream, each_sixteenth_packet_asks_for_an_acknowledgement) {
  const auto packets = post(opcode::rdma_write, 40 * mtu);
  ASSERT_EQ(packets.size(), 40U);
  for (std::size_t i = 0; i < packets.size(); ++i)
    EXPECT_EQ(packets[i].what.ack_requested, i % 16 == 15 || i == 39) << i;
}

// parity: rocev2-59
TEST_F(RequestStream, sequence_nak_sends_again_from_the_lost_packet) {
  post(opcode::rdma_write, 4 * mtu);
  const auto packets = exchange({nak(2, syndrome_sequence_error)});
  expect_packets(packets, sent_psn(2), {operation::write_middle, operation::write_last});
  EXPECT_TRUE(holds(packets[0], 2 * std::size_t{mtu}));
  EXPECT_TRUE(exchange({nak(2, syndrome_sequence_error)}).empty());
  exchange({ack(3)});
  expect_completion(completion_status::success);
}

// parity: rocev2-60
TEST_F(RequestStream, timeout_sends_again_and_ends_after_retry_cnt) {
  post(opcode::send, 8);
  const time_ns start = simulation::now;
  for (std::uint8_t i = 0; i < attributes.retry_count; ++i)
    expect_packets(wait(), own_psn, {operation::send_only});
  EXPECT_TRUE(wait().empty());
  EXPECT_EQ(simulation::now - start, 3 * acknowledgement_timeout(attributes.timeout));
  const auto all = drain(mine.sent());
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].status, completion_status::retry_exceeded);
  EXPECT_EQ(all[0].vendor_error, static_cast<std::uint32_t>(reason::no_acknowledgement));
  EXPECT_EQ(mine.pair().state(), queue_pair_state::error);
}

// parity: rocev2-62
TEST_F(RequestStream, progress_starts_retries_and_timeout_anew) {
  post(opcode::send, 8 * mtu);
  wait();
  wait();
  exchange({ack(0)});
  const time_ns before = simulation::now;
  EXPECT_EQ(wait().size(), 7U);
  EXPECT_EQ(simulation::now - before, acknowledgement_timeout(attributes.timeout));
  wait();
  EXPECT_EQ(mine.pair().state(), queue_pair_state::rts);
}

// parity: rocev2-61
TEST_F(RequestStream, late_answer_sends_again_before_the_timeout_and_is_no_retry) {
  post(opcode::send, 8);
  simulation::now += 10'000;
  exchange({ack(0)});
  post(opcode::send, 8);
  for (const time_ns early : {200'000U, 400'000U, 800'000U, 1'600'000U}) {
    const time_ns start = simulation::now;
    expect_packets(wait(), sent_psn(1), {operation::send_only});
    EXPECT_EQ(simulation::now - start, early);
  }
  for (std::uint8_t i = 0; i <= attributes.retry_count; ++i) {
    const time_ns start = simulation::now;
    EXPECT_EQ(wait().size(), i < attributes.retry_count ? 1U : 0U);
    EXPECT_EQ(simulation::now - start, acknowledgement_timeout(attributes.timeout));
  }
  EXPECT_EQ(mine.pair().state(), queue_pair_state::error);
}

// parity: rocev2-61
TEST_F(RequestStream, answer_is_late_after_the_usual_time_and_four_deviations) {
  // An early deadline of a completed request passes without effect.
  const auto wait_for_packets = [&] {
    std::vector<sent_packet> some;
    while (some.empty()) some = wait();
    return some;
  };
  for (std::uint32_t i = 0; i < 40; ++i) {
    post(opcode::send, 8);
    simulation::now += 500'000;
    exchange({ack(i)});
    static_cast<void>(drain(mine.sent()));
  }
  post(opcode::send, 8);
  time_ns start = simulation::now;
  expect_packets(wait_for_packets(), sent_psn(40), {operation::send_only});
  EXPECT_GE(simulation::now - start, 500'000U);
  EXPECT_LE(simulation::now - start, 501'000U);
  // This ACK can be for either transmission, so it is not measured.
  simulation::now += 700'000;
  exchange({ack(40)});
  post(opcode::send, 8);
  start = simulation::now;
  // The early timeout remains doubled until the next measurement.
  expect_packets(wait_for_packets(), sent_psn(41), {operation::send_only});
  EXPECT_GE(simulation::now - start, 1'000'000U);
  EXPECT_LE(simulation::now - start, 1'002'000U);
}

TEST_F(RequestStream, answers_that_become_slower_are_measured_after_few_repetitions) {
  for (std::uint32_t i = 0; i < 40; ++i) {
    post(opcode::send, 8);
    simulation::now += 20'000;
    exchange({ack(i)});
  }
  static_cast<void>(drain(mine.sent()));
  std::size_t repeated = 0;
  for (std::uint32_t i = 40; i < 140; ++i) {
    post(opcode::send, 8);
    const time_ns answered = simulation::now + 3'000'000;
    while (engine_of_packets.next_deadline() < answered) repeated += wait().size();
    simulation::now = answered;
    exchange({ack(i)});
    EXPECT_EQ(drain(mine.sent()).size(), 1U);
  }
  EXPECT_GE(repeated, 1U);
  EXPECT_LE(repeated, 20U);
}

// parity: rocev2-64
TEST_F(RequestStream, rnr_nak_waits_for_its_timer) {
  post(opcode::send, mtu + 1);
  constexpr std::uint8_t timer = 10;
  const time_ns before = simulation::now;
  EXPECT_TRUE(exchange({nak(0, syndrome_rnr_nak | timer)}).empty());
  EXPECT_TRUE(exchange({nak(0, syndrome_sequence_error)}).empty());
  expect_packets(wait(), own_psn, {operation::send_first, operation::send_last});
  EXPECT_EQ(simulation::now - before, rnr_time(timer));
}

// parity: rocev2-64
TEST_F(RequestStream, acknowledgement_during_an_rnr_wait_completes_the_request) {
  post(opcode::send, 8);
  exchange({nak(0, syndrome_rnr_nak | 10U)});
  exchange({ack(0)});
  EXPECT_TRUE(wait().empty());
  expect_completion(completion_status::success);
}

TEST_F(RequestStream, rnr_nak_after_a_lost_response_waits_for_the_response) {
  post(opcode::rdma_read, 8);                         // 0
  for (int i = 0; i < 3; ++i) post(opcode::send, 8);  // 1 to 3
  constexpr std::uint8_t timer = 10;
  expect_packets(exchange({nak(2, syndrome_rnr_nak | timer)}), own_psn, {operation::read_request});
  EXPECT_TRUE(exchange({reply(operation::read_response_only, 0, syndrome_ack, 8)}).empty());
  expect_completions({completion_status::success, completion_status::success});
  const time_ns before = simulation::now;
  expect_packets(wait(), sent_psn(2), {operation::send_only, operation::send_only});
  EXPECT_EQ(simulation::now - before, rnr_time(timer));
}

// rxe sends a NAK for a later packet, too.
TEST_F(RequestStream, sequence_nak_after_a_kept_rnr_nak_has_no_effect) {
  post(opcode::rdma_read, 8);                         // 0
  for (int i = 0; i < 2; ++i) post(opcode::send, 8);  // 1, 2
  constexpr std::uint8_t timer = 10;
  expect_packets(exchange({nak(1, syndrome_rnr_nak | timer)}), own_psn, {operation::read_request});
  EXPECT_TRUE(exchange({nak(1, syndrome_sequence_error)}).empty());
  EXPECT_TRUE(exchange({reply(operation::read_response_only, 0, syndrome_ack, 8)}).empty());
  const time_ns before = simulation::now;
  expect_packets(wait(), sent_psn(1), {operation::send_only, operation::send_only});
  EXPECT_EQ(simulation::now - before, rnr_time(timer));
}

TEST_F(RequestStream, packet_of_a_kept_rnr_nak_is_sent_after_a_wait_for_room) {
  post(opcode::rdma_read, 8);  // 0
  post(opcode::send, 8);       // 1
  out.room = 0;
  EXPECT_TRUE(exchange({nak(1, syndrome_rnr_nak | 10U)}).empty());
  EXPECT_TRUE(exchange({reply(operation::read_response_only, 0, syndrome_ack, 8)}).empty());
  out.room = kept_output::plenty;
  expect_packets(transmit(), sent_psn(1), {operation::send_only});
  exchange({ack(1)});
  expect_completions({completion_status::success, completion_status::success});
}

TEST_F(RequestStream, rnr_nak_before_a_timeout_has_no_effect_after_it) {
  post(opcode::rdma_read, 8);  // 0
  post(opcode::send, 8);       // 1
  expect_packets(exchange({nak(1, syndrome_rnr_nak | 10U)}), own_psn, {operation::read_request});
  expect_packets(wait(), own_psn, {operation::read_request, operation::send_only});
  exchange({reply(operation::read_response_only, 0, syndrome_ack, 8), ack(1)});
  expect_completions({completion_status::success, completion_status::success});
}

/// The packets were sent twice, and the second RNR NAK is older than the responses.
TEST_F(RequestStream, responses_during_an_rnr_wait_complete_their_requests) {
  post(opcode::send, 8);             // 0
  post(opcode::rdma_read, 3 * mtu);  // 1, 2, 3
  post(opcode::fetch_add, 8);        // 4
  post(opcode::send, 8);             // 5
  std::memset(peer_memory.data(), 0x3c, peer_memory.size());
  packet original = reply(operation::atomic_acknowledge, 4);
  original.original = 0x1122'3344'5566'7788U;
  exchange({nak(0, syndrome_rnr_nak | 10U),
            reply(operation::read_response_first, 1, syndrome_ack, mtu),
            reply(operation::read_response_last, 3, syndrome_ack, mtu),
            reply(operation::read_response_middle, 2, syndrome_ack, mtu), original});
  expect_packets(wait(), sent_psn(5), {operation::send_only});
  expect_completions(
      {completion_status::success, completion_status::success, completion_status::success});
  EXPECT_EQ(std::memcmp(sink.data() + 8, peer_memory.data(), 3 * std::size_t{mtu} - 8), 0);
  std::uint64_t stored = 0;
  std::memcpy(&stored, sink.data(), sizeof stored);
  EXPECT_EQ(stored, original.original);
}

TEST_F(RequestStream, bad_response_during_an_rnr_wait_is_ignored) {
  post(opcode::send, 8);         // 0
  post(opcode::rdma_read, mtu);  // 1
  exchange(
      {nak(0, syndrome_rnr_nak | 10U), reply(operation::read_response_only, 1, syndrome_ack, 4)});
  expect_packets(wait(), sent_psn(1), {operation::read_request});
}

// parity: rocev2-65
TEST_F(RequestStream, naks_end_a_request_by_their_syndrome) {
  const struct {
    std::uint8_t syndrome;
    completion_status status;
  } all[] = {{syndrome_invalid_request, completion_status::remote_invalid_request},
             {syndrome_access_error, completion_status::remote_access_error},
             {syndrome_operation_error, completion_status::remote_operation_error}};
  for (const auto& each : all) {
    simulation::end other(home);
    other.connect(attributes);
    EXPECT_TRUE(other.post({.flags = send_flag::signaled}, {sink.slice(0, 8)}));
    packet refusal = nak(0, each.syndrome);
    refusal.destination_qpn = other.pair().number();
    exchange({refusal});
    const auto done = drain(other.sent());
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].status, each.status);
    EXPECT_EQ(done[0].vendor_error, static_cast<std::uint32_t>(reason::peer_refused));
  }
}

TEST_F(RequestStream, late_nak_of_a_complete_read_is_ignored) {
  post(opcode::rdma_read, 8);
  post(opcode::send, 8);
  exchange({reply(operation::read_response_only, 0, syndrome_ack, 8), nak(0, syndrome_access_error),
            ack(1)});
  expect_completions({completion_status::success, completion_status::success});
}

TEST_F(RequestStream, read_is_placed_packet_by_packet) {
  const auto packets = post(opcode::rdma_read, 2 * mtu + 1);
  expect_packets(packets, own_psn, {operation::read_request});
  EXPECT_EQ(packets[0].what.remote, (remote_range{0x10'0000, 0x77, 2 * mtu + 1}));
  std::memset(peer_memory.data(), 0x3c, peer_memory.size());
  exchange({reply(operation::read_response_first, 0, syndrome_ack, mtu),
            reply(operation::read_response_middle, 1, syndrome_ack, mtu)});
  EXPECT_TRUE(drain(mine.sent()).empty());
  exchange({reply(operation::read_response_last, 2, syndrome_ack, 1)});
  expect_completion(completion_status::success);
  EXPECT_EQ(std::memcmp(sink.data(), peer_memory.data(), 2 * mtu + 1), 0);
}

// parity: rocev2-67
TEST_F(RequestStream, lost_part_of_a_read_is_asked_for_again) {
  post(opcode::rdma_read, 4 * mtu);
  exchange({reply(operation::read_response_first, 0, syndrome_ack, mtu)});
  const auto packets = exchange(
      {reply(operation::read_response_middle, 2, syndrome_ack, mtu, 2 * std::size_t{mtu})});
  expect_packets(packets, sent_psn(1), {operation::read_request});
  EXPECT_EQ(packets[0].what.remote, (remote_range{0x10'0000 + mtu, 0x77, 3 * mtu}));
  EXPECT_TRUE(
      exchange({reply(operation::read_response_last, 3, syndrome_ack, mtu, 3 * std::size_t{mtu})})
          .empty());
  EXPECT_TRUE(drain(mine.sent()).empty());
  exchange({reply(operation::read_response_only, 1, syndrome_ack, mtu, mtu)});
  expect_completion(completion_status::success);
  EXPECT_EQ(std::memcmp(sink.data() + mtu, peer_memory.data() + mtu, 3 * std::size_t{mtu}), 0);
}

TEST_F(RequestStream, loss_in_a_repeated_response_is_found_without_a_timeout) {
  const auto data = [this](std::uint32_t index) {
    return reply(operation::read_response_middle, index, syndrome_ack, mtu);
  };
  post(opcode::rdma_read, 8 * mtu);
  expect_packets(exchange({data(3)}), own_psn, {operation::read_request});
  expect_packets(wait(), own_psn, {operation::read_request});
  EXPECT_TRUE(exchange({data(0)}).empty());
  expect_packets(exchange({data(3)}), sent_psn(1), {operation::read_request});
  EXPECT_TRUE(exchange({data(3), data(4)}).empty());
  EXPECT_TRUE(exchange({data(1)}).empty());
  expect_packets(exchange({data(3)}), sent_psn(2), {operation::read_request});
  EXPECT_EQ(out.counts[packet_event::timed_out], 1);
}

TEST_F(RequestStream, repeated_part_of_a_read_ends_the_exponential_backoff) {
  post(opcode::send, 8);
  simulation::now += 10'000;
  exchange({ack(0)});
  const auto data = [this](std::uint32_t index) {
    return reply(operation::read_response_middle, index, syndrome_ack, mtu);
  };
  post(opcode::rdma_read, 200 * mtu);  // from 1 on
  const auto wait_for_request = [&] {
    std::vector<sent_packet> some;
    while (some.empty()) some = wait();
  };
  for (int i = 0; i < 3; ++i) wait_for_request();
  const auto expect_early = [&](time_ns early) {
    const time_ns before = simulation::now;
    wait_for_request();
    EXPECT_EQ(simulation::now - before, early);
  };
  exchange({data(1)});
  expect_early(1'600'000);
  exchange({data(2)});
  EXPECT_FALSE(exchange({data(4)}).empty());
  simulation::now += 700'000;
  exchange({data(3)});
  expect_early(800'000);
  exchange({data(5)});
  EXPECT_FALSE(exchange({data(7)}).empty());
  simulation::now += 10'000;
  exchange({data(6)});
  expect_early(200'000);
}

TEST_F(RequestStream, response_of_a_later_read_shows_that_the_end_of_an_earlier_one_is_lost) {
  post(opcode::rdma_read, 2 * mtu);  // 0, 1
  post(opcode::rdma_read, mtu);      // 2
  exchange({reply(operation::read_response_first, 0, syndrome_ack, mtu)});
  const auto packets = exchange({reply(operation::read_response_only, 2, syndrome_ack, mtu)});
  expect_packets(packets, sent_psn(1), {operation::read_request});
  EXPECT_EQ(packets[0].what.remote.length, mtu);
  EXPECT_TRUE(drain(mine.sent()).empty());
  // An error in the response of the later READ must not be lost when the earlier one is repeated.
  expect_packets(exchange({reply(operation::read_response_only, 1, syndrome_ack, mtu)}),
                 sent_psn(2), {operation::read_request});
  EXPECT_EQ(drain(mine.sent()).size(), 1U);
  exchange({reply(operation::read_response_only, 2, syndrome_ack, mtu)});
  EXPECT_EQ(drain(mine.sent()).size(), 1U);
}

TEST_F(RequestStream, atomic_operation_after_a_lost_response_is_repeated) {
  post(opcode::rdma_read, mtu);  // 0
  post(opcode::fetch_add, 8);    // 1
  packet original = reply(operation::atomic_acknowledge, 1);
  original.original = 77;
  expect_packets(exchange({original}), own_psn, {operation::read_request, operation::fetch_add});
  EXPECT_TRUE(exchange({original}).empty());
  exchange({reply(operation::read_response_only, 0, syndrome_ack, mtu)});
  EXPECT_EQ(drain(mine.sent()).size(), 1U);
  exchange({original});
  EXPECT_EQ(drain(mine.sent()).size(), 1U);
}

TEST_F(RequestStream, responses_beyond_the_window_are_asked_for_when_it_moves) {
  constexpr std::uint32_t count = response_window::capacity + 8;
  simulation::memory large(home, std::size_t{count} * mtu);
  const send_request read{.opcode = opcode::rdma_read, .flags = send_flag::signaled};
  EXPECT_TRUE(mine.post(read, {large.slice(0, count * mtu)}));
  transmit();
  const auto data = [this](std::uint32_t index) {
    return reply(operation::read_response_middle, index, syndrome_ack, mtu);
  };
  std::vector<packet> all_but_first;
  for (std::uint32_t i = 1; i + 1 < count; ++i) all_but_first.push_back(data(i));
  expect_packets(exchange(all_but_first), own_psn, {operation::read_request});
  const auto packets = exchange({data(0)});
  expect_packets(packets, sent_psn(response_window::capacity), {operation::read_request});
  EXPECT_EQ(packets[0].what.remote.length, 8 * mtu);
}

TEST_F(RequestStream, timeout_asks_for_the_missing_parts_of_a_read) {
  post(opcode::send, 8);
  simulation::now += 10'000;
  exchange({ack(0)});
  post(opcode::rdma_read, 6 * mtu);  // 1 to 6
  exchange({reply(operation::read_response_middle, 3, syndrome_ack, mtu)});
  std::vector<sent_packet> packets;
  while (packets.empty()) packets = wait();
  ASSERT_EQ(packets.size(), 1U) << "before the ACK timeout, the request and its end are not lost";
  EXPECT_EQ(packets[0].what.psn, sent_psn(1));
}

TEST_F(RequestStream, nak_within_a_read_ends_it) {
  post(opcode::rdma_read, 3 * mtu);
  exchange(
      {reply(operation::read_response_first, 0, syndrome_ack, mtu), nak(1, syndrome_access_error)});
  expect_completions({completion_status::remote_access_error});
}

TEST_F(RequestStream, nak_within_a_read_ends_it_although_a_response_was_lost) {
  post(opcode::rdma_read, 3 * mtu);
  exchange(
      {reply(operation::read_response_first, 0, syndrome_ack, mtu), nak(2, syndrome_access_error)});
  expect_completions({completion_status::remote_access_error});
}

// parity: rocev2-66
TEST_F(RequestStream, nak_behind_an_atomic_operation_without_answer_waits_for_it) {
  post(opcode::fetch_add, 8);
  post(opcode::rdma_write, 8);
  expect_packets(exchange({nak(1, syndrome_access_error)}), own_psn, {operation::fetch_add});
  exchange({reply(operation::atomic_acknowledge, 0)});
  expect_completions({completion_status::success, completion_status::remote_access_error});
}

TEST_F(RequestStream, nak_does_not_end_an_acknowledged_request_that_is_being_sent_again) {
  post(opcode::send, 2 * mtu);
  post(opcode::rdma_write, 8);
  out.room = 1;
  expect_packets(wait(), own_psn, {operation::send_first});
  exchange({nak(2, syndrome_access_error)});
  expect_completions({completion_status::success, completion_status::remote_access_error});
}

// parity: rocev2-66
TEST_F(RequestStream, nak_during_an_rnr_wait_ends_its_request_after_it) {
  post(opcode::send, 8);
  post(opcode::rdma_write, 8);
  exchange({nak(0, syndrome_rnr_nak | 10U), nak(1, syndrome_access_error)});
  EXPECT_TRUE(wait().empty());
  expect_completions({completion_status::success, completion_status::remote_access_error});
}

TEST_F(StreamWithoutRetries, lost_response_does_not_end_an_acknowledged_request) {
  post(opcode::send, 2 * mtu);
  post(opcode::rdma_read, 8);
  post(opcode::send, 8);
  exchange({nak(0, syndrome_rnr_nak | 10U)});
  out.room = 1;
  expect_packets(wait(), own_psn, {operation::send_first});
  out.room = kept_output::plenty;
  expect_packets(exchange({ack(3)}), sent_psn(2), {operation::read_request, operation::send_only});
  expect_completions({completion_status::success});
}

TEST_F(StreamWithoutRetries, wait_for_room_is_not_a_lost_packet) {
  out.room = 16;
  EXPECT_EQ(post(opcode::send, 40 * mtu).size(), 16U);
  exchange({ack(15)});
  simulation::now += 10 * acknowledgement_timeout(attributes.timeout);
  engine_of_packets.expire(simulation::now);
  EXPECT_EQ(mine.pair().state(), queue_pair_state::rts);
  out.room = kept_output::plenty;
  EXPECT_EQ(transmit().size(), 24U);
  exchange({ack(39)});
  expect_completions({completion_status::success});
}

// parity: rocev2-67
TEST_F(RequestStream, acknowledgement_of_a_later_request_repeats_a_read_without_response) {
  post(opcode::rdma_read, 8);
  post(opcode::send, 8);
  expect_packets(exchange({ack(1)}), own_psn, {operation::read_request});
  EXPECT_TRUE(exchange({ack(1)}).empty());
  exchange({reply(operation::read_response_only, 0, syndrome_ack, 8)});
  EXPECT_EQ(drain(mine.sent()).size(), 2U) << "the SEND was already acknowledged";
}

TEST_F(RequestStream, each_later_acknowledgement_does_not_withdraw_the_requests_again) {
  post(opcode::rdma_read, 8);
  for (int i = 0; i < 20; ++i) post(opcode::send, 8);
  expect_packets(exchange({ack(1)}), own_psn, {operation::read_request});
  // Withdrawn requests would be submitted again, and each READ asks the output for room.
  out.room_asked = 0;
  for (std::uint32_t i = 2; i < 21; ++i) EXPECT_TRUE(exchange({ack(i)}).empty());
  EXPECT_EQ(out.room_asked, 0);
  exchange({reply(operation::read_response_only, 0, syndrome_ack, 8)});
  EXPECT_EQ(drain(mine.sent()).size(), 21U);
}

// parity: rocev2-68
TEST_F(RequestStream, response_with_another_length_ends_the_read) {
  post(opcode::rdma_read, 2 * mtu);
  exchange({reply(operation::read_response_first, 0, syndrome_ack, mtu - 4)});
  expect_completion(completion_status::bad_response_error);
}

// parity: rocev2-68
TEST_F(RequestStream, response_that_ends_too_early_ends_the_read) {
  post(opcode::rdma_read, 2 * mtu);
  exchange({reply(operation::read_response_only, 0, syndrome_ack, mtu)});
  expect_completion(completion_status::bad_response_error);
}

TEST_F(RequestStream, response_to_a_send_is_ignored) {
  post(opcode::send, 8);
  EXPECT_TRUE(exchange({reply(operation::read_response_only, 0, syndrome_ack, 8),
                        reply(operation::atomic_acknowledge, 0)})
                  .empty());
  exchange({ack(0)});
  expect_completion(completion_status::success);
}

// parity: rocev2-69
TEST_F(RequestStream, atomic_operation_stores_the_original_value) {
  const auto packets = post(opcode::compare_swap, 8);
  expect_packets(packets, own_psn, {operation::compare_swap});
  EXPECT_EQ(packets[0].what.atomic, (atomic_operands{0x10'0000, 0x77, 6, 5}));
  packet answer = reply(operation::atomic_acknowledge, 0);
  answer.original = 0x1122'3344'5566'7788U;
  exchange({answer});
  expect_completion(completion_status::success);
  std::uint64_t stored = 0;
  std::memcpy(&stored, sink.data(), sizeof stored);
  EXPECT_EQ(stored, answer.original);
}

TEST_F(RequestStream, answer_to_an_atomic_operation_with_a_nak_ends_it) {
  post(opcode::fetch_add, 8);
  exchange({reply(operation::atomic_acknowledge, 0, syndrome_access_error)});
  expect_completions({completion_status::bad_response_error});
}

TEST_F(RequestStream, request_that_finds_no_room_goes_on_when_there_is_room) {
  out.room = 2;
  EXPECT_EQ(post(opcode::send, 4 * mtu).size(), 2U);
  EXPECT_TRUE(engine_of_packets.wants_to_transmit());
  out.room = kept_output::plenty;
  expect_packets(transmit(), sent_psn(2), {operation::send_middle, operation::send_last});
  EXPECT_FALSE(engine_of_packets.wants_to_transmit());
}

// parity: rocev2-63
TEST_F(RequestStream, timeout_zero_waits_without_a_deadline) {
  simulation::end patient(home);
  attributes.timeout = 0;
  patient.connect(attributes);
  EXPECT_TRUE(patient.post({}, {sink.slice(0, 8)}));
  EXPECT_EQ(engine_of_packets.next_deadline(), never);
}

// parity: rocev2-70
TEST_F(RequestStream, reset_forgets_packets_and_deadlines) {
  post(opcode::send, 8);
  mine.pair().modify({.state = queue_pair_state::reset}, attribute::state).value();
  EXPECT_TRUE(wait().empty());
  EXPECT_EQ(engine_of_packets.next_deadline(), never);
  EXPECT_TRUE(exchange({ack(0)}).empty());
  connect();
  expect_packets(post(opcode::send, 8), own_psn, {operation::send_only});
}

class UnreliableStream : public lone_host {
 protected:
  UnreliableStream() : lone_host(transport::uc) {
    sink.fill(0, buffer_bytes, 1);
    connect();
  }
  static void expect_unreliable(std::vector<sent_packet> some, std::uint32_t first,
                                const std::vector<operation>& names) {
    for (sent_packet& each : some) {
      EXPECT_FALSE(each.what.ack_requested);
      EXPECT_EQ(static_cast<unsigned>(each.what.opcode) & 0xe0U,
                static_cast<unsigned>(packet_transport::uc));
      each.what.opcode = make_opcode(
          packet_transport::rc, static_cast<operation>(static_cast<unsigned>(each.name()) & 0x1fU));
    }
    expect_packets(some, first, names);
  }
};

// parity: rocev2-75
TEST_F(UnreliableStream, message_completes_when_its_packets_are_sent) {
  expect_unreliable(post(opcode::send, mtu + 1), own_psn,
                    {operation::send_first, operation::send_last});
  expect_completion(completion_status::success);
  expect_unreliable(post(opcode::rdma_write_with_imm, 8), sent_psn(2),
                    {operation::write_only_with_imm});
  EXPECT_EQ(engine_of_packets.next_deadline(), never);
}

TEST_F(UnreliableStream, no_window_limits_a_message) {
  EXPECT_EQ(post(opcode::send, 2 * packet_requester::window * mtu).size(),
            2 * packet_requester::window);
}

TEST_F(UnreliableStream, message_that_finds_no_room_goes_on_when_there_is_room) {
  out.room = 1;
  expect_unreliable(post(opcode::send, 3 * mtu), own_psn, {operation::send_first});
  EXPECT_TRUE(drain(mine.sent()).empty());
  out.room = kept_output::plenty;
  expect_unreliable(transmit(), sent_psn(1), {operation::send_middle, operation::send_last});
  expect_completion(completion_status::success);
}

TEST_F(UnreliableStream, message_that_waits_too_long_for_room_is_given_up) {
  out.room = 1;
  post(opcode::send, 3 * mtu);
  post(opcode::send, 8);
  wait();  // the requester drops the first request
  EXPECT_EQ(drain(mine.sent()).size(), 1U);
  out.room = kept_output::plenty;
  expect_unreliable(transmit(), sent_psn(3), {operation::send_only});
}

}  // namespace
}  // namespace verbena::softdev::wire
