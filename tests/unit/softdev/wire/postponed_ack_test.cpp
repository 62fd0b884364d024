// SPDX-License-Identifier: MIT
// The ACKs that the engine sends with the next requests of the program.
#include <gtest/gtest.h>

#include <mutex>
#include <optional>

#include "tests/unit/softdev/wire/lone_host.hpp"

namespace verbena::softdev::wire {
namespace {

class PostponedAck : public lone_host {
 protected:
  PostponedAck() {
    attributes.timeout = 12;
    connect();
  }
  /// Passes packets to the engine as one batch of a thread that polls. Returns what it sends.
  std::vector<sent_packet> poll(const std::vector<packet>& some) {
    for (const packet& each : some) EXPECT_TRUE(engine_of_packets.receive(each));
    engine_of_packets.transmit(ack_time::later);
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
};

TEST_F(PostponedAck, next_pass_sends_it) {
  receive_message();
  EXPECT_FALSE(engine_of_packets.wants_to_transmit());
  expect_answer(transmit(), 0, syndrome_ack, 1);
  EXPECT_FALSE(engine_of_packets.has_postponed());
  EXPECT_TRUE(transmit().empty());
}

TEST_F(PostponedAck, request_of_the_program_is_sent_first) {
  receive_message();
  const send_request answer{.wr_id = 1, .opcode = opcode::send, .flags = send_flag::signaled};
  ASSERT_TRUE(mine.post(answer, {sink.slice(0, 8)}));
  engine_of_packets.put_postponed();
  const auto sent = out.take();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].name(), operation::send_only);
  EXPECT_EQ(sent[1].name(), operation::acknowledge);
}

TEST_F(PostponedAck, several_messages_are_acknowledged_at_once) {
  post_receives(3);
  expect_answer(poll({request(operation::send_only, 0, 8), request(operation::send_only, 1, 8)}), 1,
                syndrome_ack, 2);
  EXPECT_TRUE(poll({request(operation::send_only, 2, 8)}).empty());
  expect_answer(put_postponed(), 2, syndrome_ack, 3);
}

TEST_F(PostponedAck, is_that_of_a_write_with_a_completion) {
  post_receives(1);
  expect_answer(poll({remote(operation::write_only, 0, 8, 8)}), 0, syndrome_ack, 1);
  EXPECT_TRUE(poll({remote(operation::write_only_with_imm, 1, 8, 8)}).empty());
  expect_answer(put_postponed(), 1, syndrome_ack, 2);
}

TEST_F(PostponedAck, rest_of_a_message_is_acknowledged_at_once) {
  post_receives(1);
  expect_answer(poll({request(operation::send_first, 0, mtu)}), 0, syndrome_ack, 0);
  EXPECT_TRUE(poll({request(operation::send_last, 1, 8)}).empty());
  expect_answer(put_postponed(), 1, syndrome_ack, 1);
}

TEST_F(PostponedAck, naks_and_responses_are_not_postponed) {
  post_receives(1);
  const auto responses =
      poll({request(operation::send_only, 0, 8), remote(operation::read_request, 1, 8)});
  ASSERT_EQ(responses.size(), 2U) << "the response, and the ACK of the message before it";
  EXPECT_EQ(responses[0].name(), operation::read_response_only);
  expect_answer(poll({request(operation::send_only, 3, 8)}), 2, syndrome_sequence_error, 2);
  const auto refused = poll({request(operation::send_only, 2, 8)});
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].what.answer.syndrome, syndrome_rnr_nak | 4U);
}

TEST_F(PostponedAck, duplicate_of_the_message_is_acknowledged_at_once) {
  receive_message();
  expect_answer(put_postponed(), 0, syndrome_ack, 1);
  expect_answer(poll({request(operation::send_only, 0, 8)}), 0, syndrome_ack, 1);
}

TEST_F(PostponedAck, is_sent_after_the_program_has_moved_the_queue_pair_to_err) {
  receive_message();
  move_to(queue_pair_state::error);
  expect_answer(put_postponed(), 0, syndrome_ack, 1);
  EXPECT_TRUE(poll({request(operation::send_only, 1, 8)}).empty());
  EXPECT_TRUE(put_postponed().empty());
}

TEST_F(PostponedAck, is_sent_when_the_program_resets_the_queue_pair) {
  receive_message();
  move_to(queue_pair_state::reset);
  expect_answer(out.take(), 0, syndrome_ack, 1);
  EXPECT_TRUE(put_postponed().empty());
}

TEST_F(PostponedAck, is_sent_when_the_program_destroys_the_queue_pair) {
  std::optional<simulation::end> other(std::in_place, home, transport::rc);
  other->connect(attributes);
  ASSERT_TRUE(other->post_receive(0, sink.slice(0, 64)));
  packet what = request(operation::send_only, 0, 8);
  what.destination_qpn = other->pair().number();
  EXPECT_TRUE(poll({what}).empty());
  other.reset();
  expect_answer(out.take(), 0, syndrome_ack, 1);
  EXPECT_TRUE(put_postponed().empty());
}

TEST_F(PostponedAck, waits_for_the_lock_of_its_queue_pair) {
  receive_message();
  {
    const std::lock_guard held(mine.pair().receive_lock());
    EXPECT_TRUE(put_postponed().empty());
    EXPECT_TRUE(engine_of_packets.wants_to_transmit());
  }
  expect_answer(poll({}), 0, syndrome_ack, 1);
}

class ShortTimeout : public PostponedAck {
 protected:
  ShortTimeout() {
    mine.pair().modify({.state = queue_pair_state::reset}, attribute::state).value();
    attributes.timeout = 11;
    connect();
  }
};

// The peer probably has the same timeout, 8.4 ms, and would retransmit.
TEST_F(ShortTimeout, no_ack_is_postponed) {
  post_receives(1);
  expect_answer(poll({request(operation::send_only, 0, 8)}), 0, syndrome_ack, 1);
}

}  // namespace
}  // namespace verbena::softdev::wire
