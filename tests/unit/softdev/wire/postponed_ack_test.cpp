// SPDX-License-Identifier: MIT
// The ACKs that the engine sends with the next requests of the program.
#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "softdev/wire/engine/answer_pace.hpp"
#include "tests/unit/softdev/wire/lone_host.hpp"

namespace verbena::softdev::wire {
namespace {

class PostponedAck : public lone_host {
 protected:
  static constexpr std::uint32_t before = 0xffff'ffff;  ///< the packet before packet 0

  explicit PostponedAck(std::uint8_t timeout = 12) {
    attributes.receive_psn = psn(before);
    attributes.timeout = timeout;
    connect();
    post_receives(1);
    // The program answers the first message at once.
    expect_ack(poll({request(operation::send_only, before, 8)}), before);
    EXPECT_EQ(drain(mine.received()).size(), 1U);
    answer();
  }
  /// Passes packets to the engine as one batch of a thread that polls. Returns what it sends.
  std::vector<sent_packet> poll(const std::vector<packet>& some) {
    for (const packet& each : some) EXPECT_TRUE(engine_of_packets.receive(each));
    engine_of_packets.transmit(ack_time::later);
    return out.take();
  }
  /// The program posts a message. Returns what the engine sends.
  std::vector<sent_packet> answer() {
    const send_request made{.wr_id = 1, .opcode = opcode::send, .flags = send_flag::signaled};
    EXPECT_TRUE(mine.post(made, {sink.slice(0, 8)}));
    engine_of_packets.put_postponed();
    return out.take();
  }
  /// The program receives message 0, whose ACK is postponed.
  void receive_message() {
    post_receives(1);
    ASSERT_TRUE(poll({request(operation::send_only, 0, 8)}).empty());
    ASSERT_TRUE(engine_of_packets.has_postponed());
    ASSERT_EQ(drain(mine.received()).size(), 1U);
  }
  [[nodiscard]] std::vector<sent_packet> put_postponed() {
    engine_of_packets.put_postponed();
    return out.take();
  }
  void move_to(queue_pair_state state) {
    mine.pair().modify({.state = state}, attribute::state).value();
  }
  /// Expects one packet, the ACK of packet `index`. All packets before it are messages.
  static void expect_ack(const std::vector<sent_packet>& some, std::uint32_t index) {
    expect_answer(some, index, syndrome_ack, index + 2);
  }
};

TEST_F(PostponedAck, next_pass_sends_it) {
  receive_message();
  EXPECT_FALSE(engine_of_packets.wants_to_transmit());
  expect_ack(transmit(), 0);
  EXPECT_FALSE(engine_of_packets.has_postponed());
  EXPECT_TRUE(transmit().empty());
}

TEST_F(PostponedAck, request_of_the_program_is_sent_first) {
  receive_message();
  const auto sent = answer();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].name(), operation::send_only);
  EXPECT_EQ(sent[1].name(), operation::acknowledge);
}

TEST_F(PostponedAck, program_that_did_not_answer_is_not_waited_for) {
  receive_message();
  expect_ack(transmit(), 0);
  post_receives(3);
  expect_ack(poll({request(operation::send_only, 1, 8)}), 1);
  answer();
  EXPECT_TRUE(poll({request(operation::send_only, 2, 8)}).empty()) << "it answered again";
  answer();
  EXPECT_TRUE(poll({request(operation::send_only, 3, 8)}).empty());
}

TEST_F(PostponedAck, program_that_answers_slowly_is_not_waited_for) {
  receive_message();
  simulation::now += answer_pace::quick + 1;
  answer();
  post_receives(2);
  expect_ack(poll({request(operation::send_only, 1, 8)}), 1);
  simulation::now += answer_pace::quick;
  answer();
  EXPECT_TRUE(poll({request(operation::send_only, 2, 8)}).empty());
}

TEST_F(PostponedAck, retransmitted_request_is_not_an_answer) {
  receive_message();
  expect_ack(transmit(), 0);
  const auto again = exchange({reply(operation::acknowledge, 0, syndrome_sequence_error)});
  expect_packets(again, own_psn, {operation::send_only});
  post_receives(2);
  expect_ack(poll({request(operation::send_only, 1, 8)}), 1);
  answer();
  EXPECT_TRUE(poll({request(operation::send_only, 2, 8)}).empty()) << "it answered again";
}

TEST_F(PostponedAck, several_messages_are_acknowledged_at_once) {
  post_receives(2);
  expect_ack(poll({request(operation::send_only, 0, 8), request(operation::send_only, 1, 8)}), 1);
  EXPECT_TRUE(put_postponed().empty());
}

TEST_F(PostponedAck, write_without_a_completion_is_acknowledged_at_once) {
  post_receives(1);
  expect_ack(poll({remote(operation::write_only, 0, 8, 8)}), 0);
  EXPECT_TRUE(poll({remote(operation::write_only_with_imm, 1, 8, 8)}).empty());
  expect_ack(put_postponed(), 1);
}

TEST_F(PostponedAck, message_of_several_packets_is_acknowledged_at_once) {
  post_receives(1);
  expect_answer(poll({request(operation::send_first, 0, mtu)}), 0, syndrome_ack, 1);
  expect_answer(poll({request(operation::send_last, 1, 8)}), 1, syndrome_ack, 2);
}

TEST_F(PostponedAck, naks_and_responses_are_not_postponed) {
  post_receives(1);
  const auto responses =
      poll({request(operation::send_only, 0, 8), remote(operation::read_request, 1, 8)});
  ASSERT_EQ(responses.size(), 2U) << "the response, and the ACK of the message before it";
  EXPECT_EQ(responses[0].name(), operation::read_response_only);
  expect_answer(poll({request(operation::send_only, 3, 8)}), 2, syndrome_sequence_error, 3);
  const auto refused = poll({request(operation::send_only, 2, 8)});
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].what.answer.syndrome, syndrome_rnr_nak | 4U);
}

TEST_F(PostponedAck, retransmitted_message_is_acknowledged_at_once) {
  post_receives(1);
  expect_answer(poll({request(operation::send_only, 1, 8)}), 0, syndrome_sequence_error, 1);
  expect_ack(poll({request(operation::send_only, 0, 8)}), 0);
}

TEST_F(PostponedAck, duplicate_of_the_message_is_acknowledged_at_once) {
  receive_message();
  expect_ack(poll({request(operation::send_only, 0, 8)}), 0);
  EXPECT_TRUE(put_postponed().empty());
}

TEST_F(PostponedAck, is_sent_after_the_program_has_moved_the_queue_pair_to_err) {
  receive_message();
  move_to(queue_pair_state::error);
  expect_ack(put_postponed(), 0);
  EXPECT_TRUE(poll({request(operation::send_only, 1, 8)}).empty());
  EXPECT_TRUE(put_postponed().empty());
}

/// The peer has posted a READ, of which 64 packets were sent, and a message.
class DueRead : public PostponedAck {
 protected:
  DueRead() {
    post_receives(1);
    EXPECT_TRUE(engine_of_packets.receive(remote(operation::read_request, 0, 100 * mtu)));
    EXPECT_TRUE(engine_of_packets.receive(request(operation::send_only, 100, 8)));
    EXPECT_EQ(out.take().size(), 64U);
  }
};

// The program can use the memory again.
TEST_F(DueRead, is_not_answered_in_err) {
  move_to(queue_pair_state::error);
  EXPECT_TRUE(transmit().empty());
}

TEST_F(DueRead, is_not_answered_when_the_queue_pair_is_destroyed) {
  mine.destroy();
  EXPECT_TRUE(out.take().empty());
}

TEST_F(PostponedAck, is_sent_when_the_program_resets_the_queue_pair) {
  receive_message();
  move_to(queue_pair_state::reset);
  expect_ack(out.take(), 0);
  EXPECT_TRUE(put_postponed().empty());
}

TEST_F(PostponedAck, is_sent_when_the_queue_pair_is_destroyed) {
  receive_message();
  mine.destroy();
  expect_ack(out.take(), 0);
  EXPECT_TRUE(put_postponed().empty());
}

TEST_F(PostponedAck, waits_for_the_lock_of_its_queue_pair) {
  receive_message();
  {
    const std::lock_guard held(mine.pair().receive_lock());
    EXPECT_TRUE(put_postponed().empty());
    EXPECT_TRUE(engine_of_packets.wants_to_transmit());
  }
  expect_ack(poll({}), 0);
}

class ShortTimeout : public PostponedAck {
 protected:
  ShortTimeout() : PostponedAck(11) {}
};

// The peer probably has the same timeout, 8.4 ms, and would retransmit.
TEST_F(ShortTimeout, no_ack_is_postponed) {
  post_receives(1);
  expect_ack(poll({request(operation::send_only, 0, 8)}), 0);
}

}  // namespace
}  // namespace verbena::softdev::wire
