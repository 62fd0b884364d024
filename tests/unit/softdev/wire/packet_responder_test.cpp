// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/packet_responder.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <mutex>

#include "tests/unit/softdev/wire/lone_host.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr std::uint8_t rnr_nak = syndrome_rnr_nak | 4U;  // the RNR timer of attributes_for

class RequestReceiver : public lone_host {
 protected:
  RequestReceiver() {
    for (std::size_t i = 0; i < peer_memory.size(); ++i)
      peer_memory[i] = static_cast<std::byte>(i * 7 + 1);
    connect();
  }
  [[nodiscard]] bool sink_holds(std::size_t bytes) {
    return std::memcmp(sink.data(), peer_memory.data(), bytes) == 0;
  }
  void expect_error_state() { EXPECT_EQ(mine.pair().state(), queue_pair_state::error); }
  void move_to(queue_pair_state state) {
    mine.pair().modify({.state = state}, attribute::state).value();
  }
  /// Returns a WRITE of eight bytes with an unknown rkey.
  [[nodiscard]] packet refused_write(std::uint32_t index) {
    packet made = remote(operation::write_only, index, 8, 8);
    made.remote.key ^= 1U;
    return made;
  }
};

// parity: rocev2-36
TEST_F(RequestReceiver, send_is_placed_and_acknowledged) {
  post_receives(1);
  const auto answers = exchange({request(operation::send_first, 0, mtu),
                                 request(operation::send_middle, 1, mtu, mtu),
                                 request(operation::send_last, 2, 3, 2 * std::size_t{mtu})});
  expect_answer(answers, 2, syndrome_ack, 1);
  const auto done = drain(mine.received());
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, completion_status::success);
  EXPECT_EQ(done[0].byte_count, 2 * mtu + 3);
  EXPECT_TRUE(sink_holds(2 * std::size_t{mtu} + 3));
}

// Calls the responder directly, because sending the packets of 4 GiB would take too long.
TEST_F(RequestReceiver, length_of_a_send_without_an_end_does_not_wrap) {
  const std::array<sge, 2> long_sinks{sge{sink.address(), 3U << 30U, sink.key()},
                                      sge{sink.address(), 3U << 30U, sink.key()}};
  mine.pair().receives().open();
  ASSERT_EQ(mine.pair().receives().add(1, {long_sinks.data(), 2}), 0);
  mine.pair().receives().close();
  const access_epoch::guard inside(home.epoch());
  const std::lock_guard lock(mine.pair().receive_lock());
  responder& receiver = mine.pair().receiver();
  message send;
  send.opcode = opcode::send;
  send.transport = transport::rc;
  send.source_qpn = peer_qpn;
  send.destination_qpn = mine.pair().number();
  send.psn = psn(0);
  ASSERT_EQ(receiver.begin(send).outcome, verdict::done);
  receiver.keep();
  constexpr std::uint32_t longest = limits::max_message_bytes;
  EXPECT_EQ(receiver.lengthen(longest - 1).outcome, verdict::done);
  EXPECT_EQ(receiver.lengthen(1).outcome, verdict::done);
  EXPECT_EQ(receiver.lengthen(longest).outcome, verdict::invalid_request);
  EXPECT_EQ(mine.pair().state(), queue_pair_state::error);
}

// parity: rocev2-41
TEST_F(RequestReceiver, read_returns_the_bytes_before_those_of_later_requests) {
  target.fill(0, mtu, 5);
  std::vector<std::byte> before(target.data(), target.data() + mtu);
  const auto answers =
      exchange({remote(operation::read_request, 0, mtu), remote(operation::write_only, 1, mtu, mtu),
                atomic(operation::fetch_add, 2, 1)});
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].name(), operation::read_response_only);
  EXPECT_EQ(answers[0].payload, before);
  EXPECT_EQ(answers[1].name(), operation::atomic_acknowledge);
  EXPECT_EQ(answers[2].name(), operation::acknowledge);
  EXPECT_NE(std::memcmp(target.data(), before.data(), mtu), 0);
}

// parity: rocev2-39
TEST_F(RequestReceiver, send_without_ack_request_is_not_acknowledged) {
  post_receives(1);
  packet quiet = request(operation::send_only, 0, 8);
  quiet.ack_requested = false;
  EXPECT_TRUE(exchange({quiet}).empty());
  EXPECT_EQ(drain(mine.received()).size(), 1U);
}

TEST_F(RequestReceiver, immediate_data_and_solicited_of_the_last_packet_count) {
  post_receives(1);
  packet last = request(operation::send_last_with_imm, 1, 1, mtu);
  last.immediate = 0x0102'0304;
  last.solicited = true;
  mine.received().arm(notify::solicited);
  exchange({request(operation::send_first, 0, mtu), last});
  const auto done = drain(mine.received());
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].flags, completion_with_imm);
  EXPECT_EQ(done[0].immediate, network_order(std::uint32_t{0x0102'0304}));
  EXPECT_EQ(done[0].byte_count, mtu + 1);
}

// parity: rocev2-28
TEST_F(RequestReceiver, gap_is_reported_once_with_the_expected_psn) {
  post_receives(3);
  expect_answer(exchange({request(operation::send_only, 1, 8)}), 0, syndrome_sequence_error, 0);
  EXPECT_TRUE(exchange({request(operation::send_only, 2, 8)}).empty());
  expect_answer(exchange({request(operation::send_only, 0, 8), request(operation::send_only, 1, 8),
                          request(operation::send_only, 2, 8)}),
                2, syndrome_ack, 3);
  expect_answer(exchange({request(operation::send_only, 5, 8)}), 3, syndrome_sequence_error, 3);
}

// parity: rocev2-29
TEST_F(RequestReceiver, gap_that_closes_within_a_batch_is_not_reported) {
  post_receives(2);
  const auto answers =
      exchange({request(operation::send_only, 1, 8), request(operation::send_only, 0, 8)});
  expect_answer(answers, 0, syndrome_ack, 1);
}

// parity: rocev2-30
TEST_F(RequestReceiver, duplicate_send_is_acknowledged_and_not_executed) {
  post_receives(3);
  exchange({request(operation::send_only, 0, 8), request(operation::send_only, 1, 8)});
  EXPECT_EQ(drain(mine.received()).size(), 2U);
  expect_answer(exchange({request(operation::send_only, 0, 8)}), 1, syndrome_ack, 2);
  EXPECT_TRUE(drain(mine.received()).empty());
}

// parity: rocev2-43
TEST_F(RequestReceiver, send_without_receive_gets_rnr_nak_and_later_packets_no_answer) {
  expect_answer(exchange({request(operation::send_first, 0, mtu)}), 0, rnr_nak, 0);
  EXPECT_TRUE(exchange({request(operation::send_last, 1, 1)}).empty());
  post_receives(1);
  expect_answer(
      exchange({request(operation::send_first, 0, mtu), request(operation::send_last, 1, 1)}), 1,
      syndrome_ack, 1);
}

// parity: rocev2-44
TEST_F(RequestReceiver, write_takes_a_receive_for_the_immediate_data_of_its_last_packet) {
  exchange({remote(operation::write_first, 0, mtu + 4, mtu)});
  packet last = request(operation::write_last_with_imm, 1, 4, mtu);
  expect_answer(exchange({last}), 1, rnr_nak, 0);
  EXPECT_EQ(mine.pair().state(), queue_pair_state::rts);
  post_receives(1);
  expect_answer(exchange({last}), 1, syndrome_ack, 1);
  EXPECT_EQ(std::memcmp(target.data(), peer_memory.data(), mtu + 4), 0);
  const auto done = drain(mine.received());
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].opcode, completion_opcode::receive_rdma_with_imm);
  EXPECT_EQ(done[0].byte_count, mtu + 4);
}

// parity: rocev2-45
TEST_F(RequestReceiver, send_that_exceeds_the_receive_request_is_refused) {
  post_receives(1, mtu + 1);
  const auto answers =
      exchange({request(operation::send_first, 0, mtu), request(operation::send_last, 1, 2, mtu)});
  expect_answer(answers, 1, syndrome_invalid_request, 0);
  const auto done = drain(mine.received());
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, completion_status::local_length_error);
  expect_error_state();
}

// parity: rocev2-46
TEST_F(RequestReceiver, packet_that_does_not_continue_the_message_is_refused) {
  post_receives(2);
  const auto answers =
      exchange({request(operation::send_first, 0, mtu), request(operation::write_last, 1, 1)});
  expect_answer(answers, 1, syndrome_invalid_request, 0);
  expect_error_state();
}

// parity: rocev2-46
TEST_F(RequestReceiver, message_without_first_packet_is_refused) {
  expect_answer(exchange({request(operation::send_last, 0, 1)}), 0, syndrome_invalid_request, 0);
  expect_error_state();
}

// parity: rocev2-46
TEST_F(RequestReceiver, read_within_a_message_is_refused) {
  post_receives(1);
  const auto answers =
      exchange({request(operation::send_first, 0, mtu), remote(operation::read_request, 1, 8)});
  expect_answer(answers, 1, syndrome_invalid_request, 0);
}

// parity: rocev2-55
TEST_F(RequestReceiver, send_with_invalidate_is_refused) {
  post_receives(1);
  expect_answer(exchange({request(operation::send_only_with_invalidate, 0, 8)}), 0,
                syndrome_invalid_request, 0);
}

// parity: rocev2-47
TEST_F(RequestReceiver, first_packet_shorter_than_the_mtu_is_refused) {
  post_receives(1);
  expect_answer(exchange({request(operation::send_first, 0, mtu - 4)}), 0, syndrome_invalid_request,
                0);
}

// parity: rocev2-47
TEST_F(RequestReceiver, packet_longer_than_the_mtu_is_refused) {
  post_receives(1);
  expect_answer(exchange({request(operation::send_only, 0, mtu + 4)}), 0, syndrome_invalid_request,
                0);
}

// parity: rocev2-48
TEST_F(RequestReceiver, write_that_ends_before_its_length_is_refused) {
  const auto answers = exchange(
      {remote(operation::write_first, 0, 3 * mtu, mtu), request(operation::write_last, 1, 8)});
  expect_answer(answers, 1, syndrome_invalid_request, 0);
}

// parity: rocev2-48
TEST_F(RequestReceiver, write_with_payload_beyond_its_length_is_refused) {
  const auto answers = exchange(
      {remote(operation::write_first, 0, mtu + 4, mtu), request(operation::write_last, 1, 8)});
  expect_answer(answers, 1, syndrome_invalid_request, 0);
}

// parity: rocev2-48
TEST_F(RequestReceiver, only_packet_of_a_write_with_another_length_is_refused) {
  expect_answer(exchange({remote(operation::write_only, 0, 16, 8)}), 0, syndrome_invalid_request,
                0);
}

// parity: rocev2-49
TEST_F(RequestReceiver, unknown_key_is_an_access_error) {
  packet foreign = remote(operation::write_only, 0, 8, 8);
  foreign.remote.key ^= 1U;
  expect_answer(exchange({foreign}), 0, syndrome_access_error, 0);
  expect_error_state();
}

// parity: rocev2-54
TEST_F(RequestReceiver, nothing_is_answered_after_a_failure) {
  packet foreign = remote(operation::write_only, 0, 8, 8);
  foreign.remote.key ^= 1U;
  exchange({foreign});
  EXPECT_TRUE(exchange({remote(operation::write_only, 0, 8, 8)}).empty());
}

// parity: rocev2-27, rocev2-36, rocev2-40
TEST_F(RequestReceiver, read_is_answered_in_packets_before_later_requests) {
  post_receives(1);
  const auto answers = exchange(
      {remote(operation::read_request, 0, 2 * mtu + 1), request(operation::send_only, 3, 8)});
  expect_packets(answers, psn(0),
                 {operation::read_response_first, operation::read_response_middle,
                  operation::read_response_last, operation::acknowledge});
  EXPECT_EQ(answers[0].what.answer.msn, 1U);
  EXPECT_EQ(answers[2].payload.size(), 1U);
  EXPECT_EQ(answers[3].what.answer.msn, 2U);
  EXPECT_EQ(std::memcmp(answers[1].payload.data(), target.data() + mtu, mtu), 0);
}

// parity: rocev2-50
TEST_F(RequestReceiver, empty_read_is_answered_without_its_key) {
  packet empty = remote(operation::read_request, 0, 0);
  empty.remote.key ^= 1U;
  expect_packets(exchange({empty}), psn(0), {operation::read_response_only});
}

// parity: rocev2-31
TEST_F(RequestReceiver, repeated_read_reads_memory_again_from_where_it_begins) {
  exchange({remote(operation::read_request, 0, 3 * mtu)});
  target.data()[mtu] = std::byte{0x42};
  const auto answers = exchange({remote(operation::read_request, 1, 2 * mtu, 0, mtu)});
  expect_packets(answers, psn(1), {operation::read_response_first, operation::read_response_last});
  EXPECT_EQ(answers[0].payload[0], std::byte{0x42});
}

TEST_F(RequestReceiver, repeated_part_of_a_read_follows_the_rest_of_the_response) {
  out.room = 3;
  auto answers = exchange({remote(operation::read_request, 0, 6 * mtu)});
  EXPECT_EQ(answers.size(), 3U);
  out.room = kept_output::plenty;
  answers = exchange({remote(operation::read_request, 1, mtu, 0, mtu)});
  using enum operation;
  std::vector<std::uint32_t> indexes;
  indexes.reserve(answers.size());
  for (const sent_packet& each : answers) indexes.push_back((each.what.psn - peer_psn) & psn_mask);
  EXPECT_EQ(indexes, (std::vector<std::uint32_t>{3, 4, 5, 1}));
  EXPECT_EQ(answers[3].name(), read_response_only);
  EXPECT_EQ(std::memcmp(answers[3].payload.data(), target.data() + mtu, mtu), 0);
}

TEST_F(RequestReceiver, repeated_end_of_a_read_replaces_the_rest_of_the_response) {
  out.room = 3;
  exchange({remote(operation::read_request, 0, 6 * mtu)});
  out.room = kept_output::plenty;
  const auto answers = exchange({remote(operation::read_request, 1, 5 * mtu, 0, mtu)});
  expect_packets(answers, psn(1),
                 {operation::read_response_first, operation::read_response_middle,
                  operation::read_response_middle, operation::read_response_middle,
                  operation::read_response_last});
}

TEST_F(RequestReceiver, repeated_end_of_a_read_does_not_replace_a_repeated_part) {
  out.room = 2;
  exchange({remote(operation::read_request, 0, 12 * mtu)});
  out.room = kept_output::plenty;
  const auto answers =
      exchange({remote(operation::read_request, 4, mtu, 0, 4 * std::uint64_t{mtu}),
                remote(operation::read_request, 10, 2 * mtu, 0, 10 * std::uint64_t{mtu})});
  ASSERT_EQ(answers.size(), 3U);
  expect_packets({answers[0]}, psn(4), {operation::read_response_only});
  expect_packets({answers[1], answers[2]}, psn(10),
                 {operation::read_response_first, operation::read_response_last});
}

TEST_F(RequestReceiver, repeated_parts_of_a_read_are_sent_without_packets_between_them) {
  exchange({remote(operation::read_request, 0, 12 * mtu)});
  const auto part = [this](std::uint32_t begin, std::uint32_t end) {
    return remote(operation::read_request, begin, (end - begin) * mtu, 0,
                  std::uint64_t{begin} * mtu);
  };
  const auto answers = exchange({part(1, 3), part(5, 6), part(8, 9), part(11, 12)});
  std::vector<std::uint32_t> indexes;
  indexes.reserve(answers.size());
  for (const sent_packet& each : answers) indexes.push_back((each.what.psn - peer_psn) & psn_mask);
  EXPECT_EQ(indexes, (std::vector<std::uint32_t>{1, 2, 5, 8, 11}));
  EXPECT_EQ(answers[0].name(), operation::read_response_first);
  EXPECT_EQ(answers[1].name(), operation::read_response_last);
  EXPECT_EQ(answers[4].name(), operation::read_response_only);
}

// parity: rocev2-32
TEST_F(RequestReceiver, repeated_read_of_other_memory_is_dropped) {
  exchange({remote(operation::read_request, 0, 2 * mtu)});
  EXPECT_TRUE(exchange({remote(operation::read_request, 0, 2 * mtu, 0, 8)}).empty());
  EXPECT_TRUE(exchange({remote(operation::read_request, 0, 2 * mtu + 1)}).empty());
  packet foreign = remote(operation::read_request, 0, 2 * mtu);
  foreign.remote.key ^= 1U;
  EXPECT_TRUE(exchange({foreign}).empty());
}

// parity: rocev2-51
TEST_F(RequestReceiver, read_of_memory_that_is_deregistered_meanwhile_is_refused) {
  out.room = 1;
  EXPECT_EQ(exchange({remote(operation::read_request, 0, 3 * mtu)}).size(), 1U);
  EXPECT_TRUE(home.deregister_region(target.key()));
  out.room = kept_output::plenty;
  expect_answer(transmit(), 1, syndrome_access_error, 1);
  expect_error_state();
}

TEST_F(RequestReceiver, read_is_refused_if_only_a_repeated_part_was_sent_before_deregistration) {
  out.room = 3;
  exchange({remote(operation::read_request, 0, 6 * mtu)});
  out.room = 1;
  expect_packets(exchange({remote(operation::read_request, 1, mtu, 0, mtu),
                           remote(operation::read_request, 2, 4 * mtu, 0, 2 * std::uint64_t{mtu})}),
                 psn(1), {operation::read_response_only});
  EXPECT_TRUE(home.deregister_region(target.key()));
  out.room = kept_output::plenty;
  expect_answer(transmit(), 2, syndrome_access_error, 1);
  expect_error_state();
}

// parity: rocev2-51
TEST_F(RequestReceiver, repeated_read_of_memory_that_is_deregistered_since_fails_only_at_the_peer) {
  post_receives(1);
  exchange({remote(operation::read_request, 0, 2 * mtu)});
  EXPECT_TRUE(home.deregister_region(target.key()));
  expect_answer(exchange({remote(operation::read_request, 1, mtu, 0, mtu)}), 1,
                syndrome_access_error, 1);
  EXPECT_EQ(mine.pair().state(), queue_pair_state::rts);
  expect_answer(exchange({request(operation::send_only, 2, 8)}), 2, syndrome_ack, 2);
}

// parity: rocev2-42
TEST_F(RequestReceiver, answers_before_a_refused_request_are_sent) {
  const auto answers = exchange({remote(operation::read_request, 0, 2 * mtu),
                                 atomic(operation::fetch_add, 2, 5), refused_write(3)});
  expect_packets(answers, psn(0),
                 {operation::read_response_first, operation::read_response_last,
                  operation::atomic_acknowledge, operation::acknowledge});
  EXPECT_EQ(answers[3].what.answer.syndrome, syndrome_access_error);
  expect_error_state();
  EXPECT_TRUE(transmit().empty());
}

TEST_F(RequestReceiver, read_that_is_refused_replaces_the_refusal_of_a_later_request) {
  out.room = 1;
  EXPECT_EQ(exchange({remote(operation::read_request, 0, 3 * mtu), refused_write(3)}).size(), 1U);
  EXPECT_TRUE(home.deregister_region(target.key()));
  out.room = kept_output::plenty;
  expect_answer(transmit(), 1, syndrome_access_error, 1);
}

// parity: rocev2-54
TEST_F(RequestReceiver, nothing_is_answered_after_the_program_ended_the_queue_pair) {
  out.room = 0;
  exchange({remote(operation::read_request, 0, 8), request(operation::send_only, 1, 8)});
  move_to(queue_pair_state::error);
  out.room = kept_output::plenty;
  EXPECT_TRUE(transmit().empty());
}

// parity: rocev2-40
TEST_F(RequestReceiver, answers_wait_for_room_in_their_order) {
  post_receives(1);
  out.room = 1;
  auto answers =
      exchange({remote(operation::read_request, 0, 2 * mtu), request(operation::send_only, 2, 8)});
  expect_packets(answers, psn(0), {operation::read_response_first});
  EXPECT_TRUE(engine_of_packets.wants_to_transmit());
  out.room = 1;
  expect_packets(transmit(), psn(1), {operation::read_response_last});
  out.room = 1;
  expect_packets(transmit(), psn(2), {operation::acknowledge});
  EXPECT_FALSE(engine_of_packets.wants_to_transmit());
}

// parity: rocev2-33
TEST_F(RequestReceiver, repeated_atomic_operation_gets_the_stored_value) {
  const auto word = [&] {
    std::uint64_t value = 0;
    std::memcpy(&value, target.data(), sizeof value);
    return value;
  };
  auto answers = exchange({atomic(operation::fetch_add, 0, 5)});
  expect_packets(answers, psn(0), {operation::atomic_acknowledge});
  EXPECT_EQ(word(), 5U);
  answers = exchange({atomic(operation::compare_swap, 1, 9, 5)});
  EXPECT_EQ(answers.at(0).what.original, 5U);
  EXPECT_EQ(word(), 9U);
  answers = exchange({atomic(operation::fetch_add, 0, 5)});
  expect_packets(answers, psn(0), {operation::atomic_acknowledge});
  EXPECT_EQ(answers[0].what.original, 0U);
  EXPECT_EQ(word(), 9U);
}

// parity: rocev2-34
TEST_F(RequestReceiver, atomic_operation_that_is_no_longer_kept_is_dropped) {
  for (std::uint32_t i = 0; i < 5; ++i) exchange({atomic(operation::fetch_add, i, 1)});
  EXPECT_TRUE(exchange({atomic(operation::fetch_add, 0, 1)}).empty());
  EXPECT_EQ(exchange({atomic(operation::fetch_add, 1, 1)}).size(), 1U);
}

/// The READs use all PSNs once. Only the end of each response is requested again.
// parity: rocev2-35
TEST_F(RequestReceiver, repetition_gets_the_newest_answer_with_its_psn) {
  move_to(queue_pair_state::reset);
  attributes.max_dest_rd_atomic = 8;
  connect();
  constexpr std::uint32_t bytes = 1U << 30U;
  constexpr std::uint32_t packets = bytes / mtu;
  void* const zeros =
      mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  const auto address = reinterpret_cast<std::uint64_t>(zeros);
  const std::uint32_t key = home.register_region({.base = static_cast<std::byte*>(zeros),
                                                  .length = bytes,
                                                  .iova = address,
                                                  .rights = simulation::everything,
                                                  .domain = simulation::domain})
                                .value();
  for (std::uint32_t first = 0; first < 4 * packets; first += packets) {
    packet whole = request(operation::read_request, first);
    whole.remote = {address, key, bytes};
    packet end = request(operation::read_request, first + packets - 1);
    end.remote = {address + bytes - mtu, key, mtu};
    expect_packets(exchange({whole, end}), end.psn, {operation::read_response_only});
  }
  expect_packets(exchange({atomic(operation::fetch_add, 0, 5)}), psn(0),
                 {operation::atomic_acknowledge});
  expect_packets(exchange({atomic(operation::fetch_add, 0, 5)}), psn(0),
                 {operation::atomic_acknowledge});
  EXPECT_TRUE(home.deregister_region(key));
  EXPECT_EQ(munmap(zeros, bytes), 0);
}

TEST_F(RequestReceiver, message_whose_completion_is_lost_is_not_acknowledged) {
  ASSERT_TRUE(mine.received().resize(1));
  post_receives(2);
  const auto answers =
      exchange({request(operation::send_only, 0, 8), request(operation::send_only, 1, 8)});
  expect_error_state();
  expect_answer(answers, 0, syndrome_ack, 1);
  EXPECT_EQ(drain(mine.received()).size(), 1U);
}

// parity: rocev2-52
TEST_F(RequestReceiver, misaligned_atomic_operation_is_refused) {
  packet odd = atomic(operation::fetch_add, 0, 1);
  odd.atomic.address += 4;
  expect_answer(exchange({odd}), 0, syndrome_invalid_request, 0);
}

// parity: rocev2-53
TEST_F(RequestReceiver, more_reads_than_max_dest_rd_atomic_are_refused) {
  out.room = 0;
  for (std::uint32_t i = 0; i < 4; ++i)
    EXPECT_TRUE(exchange({remote(operation::read_request, i, 8)}).empty());
  EXPECT_EQ(mine.pair().state(), queue_pair_state::rts);
  EXPECT_TRUE(exchange({remote(operation::read_request, 4, 8)}).empty());
  expect_error_state();
  out.room = kept_output::plenty;
  auto answers = transmit();
  ASSERT_EQ(answers.size(), 5U);
  expect_answer({answers.back()}, 4, syndrome_invalid_request, 4);
  answers.pop_back();
  expect_packets(answers, psn(0), std::vector<operation>(4, operation::read_response_only));
}

TEST_F(RequestReceiver, reads_up_to_the_next_power_of_two_are_executed) {
  move_to(queue_pair_state::reset);
  attributes.max_dest_rd_atomic = 3;
  connect();
  out.room = 0;
  for (std::uint32_t i = 0; i < 4; ++i)
    EXPECT_TRUE(exchange({remote(operation::read_request, i, 8)}).empty());
  EXPECT_EQ(mine.pair().state(), queue_pair_state::rts);
  out.room = kept_output::plenty;
  expect_packets(transmit(), psn(0), std::vector<operation>(4, operation::read_response_only));
}

TEST_F(RequestReceiver, number_of_reads_can_change_in_sqd) {
  move_to(queue_pair_state::sqd);
  const auto set_depth = [&](std::uint8_t depth) {
    mine.pair()
        .modify({.state = queue_pair_state::sqd, .max_dest_rd_atomic = depth},
                attribute::state | attribute::max_dest_rd_atomic)
        .value();
  };
  set_depth(8);
  out.room = 0;
  for (std::uint32_t i = 0; i < 8; ++i)
    EXPECT_TRUE(exchange({remote(operation::read_request, i, 8)}).empty());
  EXPECT_EQ(mine.pair().state(), queue_pair_state::sqd);
  set_depth(2);
  out.room = kept_output::plenty;
  expect_packets(transmit(), psn(0), std::vector<operation>(8, operation::read_response_only));
  EXPECT_TRUE(exchange({remote(operation::read_request, 5, 8)}).empty()) << "no longer kept";
  EXPECT_EQ(exchange({remote(operation::read_request, 6, 8)}).size(), 1U);
  out.room = 0;
  for (std::uint32_t i = 8; i < 10; ++i)
    EXPECT_TRUE(exchange({remote(operation::read_request, i, 8)}).empty());
  EXPECT_EQ(mine.pair().state(), queue_pair_state::sqd);
  EXPECT_TRUE(exchange({remote(operation::read_request, 10, 8)}).empty());
  expect_error_state();
}

TEST_F(RequestReceiver, packets_after_a_long_read_share_its_limit_of_packets) {
  constexpr std::uint32_t packets = 200;
  std::vector<packet> batch{remote(operation::read_request, 0, packets * mtu)};
  for (std::uint32_t i = 0; i < 4; ++i)
    batch.push_back(remote(operation::write_only, packets + i, 8, 8));
  EXPECT_EQ(exchange(batch).size(), 2 * 64U) << "before the first WRITE, and after the batch";
  EXPECT_EQ(transmit().size(), 64U);
  EXPECT_EQ(transmit().size(), 8U + 1U) << "the rest, and the ACK of the WRITEs";
}

// parity: rocev2-88
TEST_F(RequestReceiver, packet_for_an_unknown_queue_pair_is_dropped) {
  packet lost = request(operation::send_only, 0, 8);
  lost.destination_qpn ^= 0x10'0000U;
  EXPECT_TRUE(exchange({lost}).empty());
}

// parity: rocev2-87
TEST_F(RequestReceiver, packet_of_another_partition_is_dropped) {
  post_receives(1);
  packet foreign = request(operation::send_only, 0, 8);
  foreign.pkey = 0x8001;
  EXPECT_TRUE(exchange({foreign}).empty());
  expect_answer(exchange({request(operation::send_only, 0, 8)}), 0, syndrome_ack, 1);
}

/// Fails the queue pair while a receive completion is added, as the send side does on another
/// thread.
class failing_observer final : public completion_observer {
 public:
  queue_pair* which = nullptr;
  void event(completion_queue& /*queue*/) override { which->fail(); }
};

TEST_F(RequestReceiver, message_is_acknowledged_if_the_send_side_fails_at_this_moment) {
  failing_observer observer;
  simulation::end other(home, transport::rc, &observer);
  other.connect(attributes);
  observer.which = &other.pair();
  ASSERT_TRUE(other.post_receive(1, sink.slice(0, mtu)));
  other.received().arm(notify::any);
  packet what = request(operation::send_only, 0, 8);
  what.destination_qpn = other.pair().number();
  const auto answers = exchange({what});
  EXPECT_EQ(other.pair().state(), queue_pair_state::error);
  const auto done = drain(other.received());
  ASSERT_FALSE(done.empty());
  EXPECT_EQ(done[0].status, completion_status::success);
  expect_answer(answers, 0, syndrome_ack, 1);
}

TEST_F(RequestReceiver, message_whose_completion_is_lost_gets_no_ack) {
  post_receives(1);
  mine.received().overrun_next();
  EXPECT_TRUE(exchange({request(operation::send_only, 0, 8)}).empty());
  EXPECT_EQ(mine.pair().state(), queue_pair_state::error);
  EXPECT_TRUE(drain(mine.received()).empty());
}

class UnreliableReceiver : public lone_host {
 protected:
  UnreliableReceiver() : lone_host(transport::uc) {
    for (std::size_t i = 0; i < peer_memory.size(); ++i)
      peer_memory[i] = static_cast<std::byte>(i * 7 + 1);
    connect();
  }
  /// Passes packets to the engine, and expects no response.
  void receive(std::vector<packet> some) {
    for (packet& each : some)
      each.opcode = make_opcode(packet_transport::uc, static_cast<operation>(each.opcode));
    EXPECT_TRUE(exchange(some).empty());
  }
  void expect_received(const std::vector<std::uint32_t>& lengths) {
    const auto done = drain(mine.received());
    ASSERT_EQ(done.size(), lengths.size());
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      EXPECT_EQ(done[i].status, completion_status::success);
      EXPECT_EQ(done[i].wr_id, next_receive_++);
      EXPECT_EQ(done[i].byte_count, lengths[i]);
    }
  }

 private:
  std::uint64_t next_receive_ = 0;
};

// parity: rocev2-71
TEST_F(UnreliableReceiver, message_is_received_in_packets_with_any_first_psn) {
  post_receives(2);
  receive({request(operation::send_first, 70, mtu), request(operation::send_last, 71, 4, mtu)});
  expect_received({mtu + 4});
  EXPECT_EQ(std::memcmp(sink.data(), peer_memory.data(), mtu + 4), 0);
  receive({request(operation::send_only, 5, 8)});
  expect_received({8});
}

// parity: rocev2-72
TEST_F(UnreliableReceiver, message_with_a_lost_packet_is_dropped_and_its_receive_taken_later) {
  post_receives(1);
  receive({request(operation::send_first, 0, mtu), request(operation::send_last, 2, 4),
           request(operation::send_middle, 3, mtu), request(operation::send_only, 4, 12)});
  expect_received({12});
}

// parity: rocev2-73
TEST_F(UnreliableReceiver, message_that_begins_within_another_replaces_it) {
  post_receives(2);
  receive({request(operation::send_first, 0, mtu), request(operation::send_first, 1, mtu),
           request(operation::send_last, 2, 1)});
  expect_received({mtu + 1});
}

// parity: rocev2-72
TEST_F(UnreliableReceiver, repeated_packet_of_a_message_drops_the_rest) {
  post_receives(1);
  receive({request(operation::send_first, 0, mtu), request(operation::send_middle, 1, mtu),
           request(operation::send_middle, 1, mtu), request(operation::send_last, 2, 1)});
  expect_received({});
}

TEST_F(UnreliableReceiver, packet_of_another_transport_or_operation_is_dropped) {
  post_receives(1);
  EXPECT_TRUE(exchange({request(operation::send_only, 0, 8)}).empty());  // an RC packet
  receive({remote(operation::read_request, 0, 8), reply(operation::acknowledge, 0)});
  expect_received({});
}

// parity: rocev2-74
TEST_F(UnreliableReceiver, write_with_immediate_data_without_receive_is_dropped) {
  receive({remote(operation::write_first, 0, mtu + 1, mtu),
           request(operation::write_last_with_imm, 1, 1)});
  EXPECT_EQ(mine.pair().state(), queue_pair_state::rts);
  post_receives(1);
  receive({remote(operation::write_first, 2, mtu + 1, mtu),
           request(operation::write_last_with_imm, 3, 1)});
  expect_received({mtu + 1});
}

// parity: rocev2-74
TEST_F(UnreliableReceiver, refused_request_leaves_the_queue_pair_as_it_is) {
  packet foreign = remote(operation::write_only, 0, 8, 8);
  foreign.remote.key ^= 1U;
  receive({foreign});
  EXPECT_EQ(mine.pair().state(), queue_pair_state::rts);
}

}  // namespace
}  // namespace verbena::softdev::wire
