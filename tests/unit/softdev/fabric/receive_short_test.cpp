// SPDX-License-Identifier: MIT
// Lists of sends: the requests of a list go into the ring together, and short ones are received
// together. Requests of other kinds among them are executed in their turn.
#include "tests/unit/softdev/fabric/device_pair.hpp"

namespace verbena::softdev::testing {
namespace {

class lists_of_sends : public ::testing::Test {
 protected:
  lists_of_sends() {
    pair.connect_ends();
    for (std::size_t i = 0; i < 64; ++i) source.set_word(i, 100 + i);
  }
  // Adds a send of the word with the number of the request.
  void add(send_request request, std::size_t bytes = 8) {
    const sge piece = source.slice(request.wr_id * 8, bytes);
    EXPECT_EQ(pair.a->qp->sends().add(request, {&piece, 1}), 0);
  }
  // Posts a list of `count` sends of a word, the last one signaled.
  void post_list(std::uint64_t first, std::size_t count) {
    pair.a->qp->sends().open();
    for (std::uint64_t id = first; id < first + count; ++id)
      add({.wr_id = id, .flags = id + 1 == first + count ? signaled : send_flags()});
    pair.a->qp->sends().submit();
  }
  void post_receives(std::uint64_t first, std::size_t count) {
    for (std::uint64_t id = first; id < first + count; ++id)
      ASSERT_EQ(post_receive(*pair.b->qp, id, {target.slice(id * 8, 8)}), 0);
  }
  void expect_words(std::uint64_t first, const std::vector<completion>& received) {
    for (std::uint64_t id = first; id < first + received.size(); ++id) {
      const completion& one = received[id - first];
      EXPECT_EQ(one.wr_id, id);
      EXPECT_EQ(one.status, completion_status::success);
      EXPECT_EQ(one.opcode, completion_opcode::receive);
      EXPECT_EQ(one.byte_count, 8U);
      EXPECT_EQ(one.qp_num, pair.b->qp->number());
      EXPECT_EQ(one.source_qp, pair.a->qp->number());
      EXPECT_EQ(one.flags, 0);
      EXPECT_EQ(target.word(id), 100 + id);
    }
  }

  device_pair pair;
  shared_buffer source{pair.left, memory_kind::ordinary, 8192, 1};
  shared_buffer target{pair.right, memory_kind::ordinary, 8192, 2};
};

TEST_F(lists_of_sends, arrive_in_order_and_complete_with_the_last) {
  post_receives(0, 64);
  post_list(0, 60);
  const auto received = pair.wait_for(*pair.b->received, 60);
  ASSERT_EQ(received.size(), 60U);
  expect_words(0, received);
  const auto sent = pair.wait_for(*pair.a->sent, 1);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].wr_id, 59U);
  EXPECT_EQ(sent[0].byte_count, 8U);
  EXPECT_TRUE(target.holds(2, 480, 512, 480));
}

TEST_F(lists_of_sends, each_send_counts_for_a_moderated_event) {
  struct counter final : completion_observer {
    int events = 0;
    void event(completion_queue&) override { ++events; }
  } counted;
  pair.b = &pair.right.make({.receive_observer = &counted});
  pair.a = &pair.left.make();
  pair.connect_ends();
  pair.settle();
  post_receives(0, 17);
  post_list(0, 1);  // establishes the connection
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).size(), 1U);
  pair.b->received->moderate({.completions = 16}, nullptr);
  pair.b->received->arm(notify::any);
  post_list(1, 16);
  const auto received = pair.wait_for(*pair.b->received, 16);
  EXPECT_EQ(counted.events, 1);
  expect_words(1, received);
}

TEST_F(lists_of_sends, requests_of_other_kinds_keep_their_turn) {
  constexpr std::uint64_t count = 12;
  for (std::uint64_t id = 0; id < count; ++id) {
    const sge half = target.slice(id * 512, 4);
    const sge rest = target.slice(id * 512 + 4, 2000);
    ASSERT_EQ(post_receive(*pair.b->qp, id, {half, rest}), 0);
  }
  const auto bytes_of = [](std::uint64_t id) -> std::size_t {
    return id == 3 ? 0 : id == 5 ? 1500 : id % 2 == 0 ? 4 : 8;
  };
  pair.a->qp->sends().open();
  for (std::uint64_t id = 0; id < count; ++id)
    add({.wr_id = id,
         .opcode = id == 7 ? opcode::send_with_imm : opcode::send,
         .flags = id == 9 ? send_flags(send_flag::solicited) : send_flags(),
         .immediate = 77},
        bytes_of(id));
  pair.a->qp->sends().submit();
  const auto received = pair.wait_for(*pair.b->received, count);
  ASSERT_EQ(received.size(), count);
  for (std::uint64_t id = 0; id < count; ++id) {
    EXPECT_EQ(received[id].wr_id, id);
    EXPECT_EQ(received[id].status, completion_status::success);
    EXPECT_EQ(received[id].byte_count, bytes_of(id));
    EXPECT_EQ(received[id].flags, id == 7 ? completion_with_imm : 0);
    EXPECT_EQ(received[id].immediate, id == 7 ? 77U : 0U);
  }
  EXPECT_EQ(target.word(64), 101U);
  EXPECT_TRUE(target.holds(2, 4 * 512 + 4, 4, 4 * 512 + 4));
}

TEST_F(lists_of_sends, list_beyond_the_receive_requests_goes_on_when_there_are_more) {
  post_receives(0, 5);
  post_list(0, 12);
  auto received = pair.wait_for(*pair.b->received, 5);
  pair.settle();
  EXPECT_TRUE(pair.b->received->empty());
  post_receives(5, 7);
  pair.pass_time(1'000'000);
  for (const completion& one : pair.wait_for(*pair.b->received, 7)) received.push_back(one);
  ASSERT_EQ(received.size(), 12U);
  expect_words(0, received);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).wr_id, 11U);
}

TEST_F(lists_of_sends, list_ends_at_the_receive_request_that_is_invalid) {
  post_receives(0, 4);
  sge invalid = target.slice(32, 8);
  invalid.lkey ^= 1;
  ASSERT_EQ(post_receive(*pair.b->qp, 4, {invalid}), 0);
  post_receives(5, 3);
  post_list(0, 8);
  const auto received = pair.wait_for(*pair.b->received, 8);
  ASSERT_EQ(received.size(), 8U);
  expect_words(0, {received.begin(), received.begin() + 4});
  EXPECT_EQ(received[4].status, completion_status::local_protection_error);
  EXPECT_EQ(received[5].status, completion_status::flushed);
  const auto sent = pair.wait_for(*pair.a->sent, 4);
  ASSERT_EQ(sent.size(), 4U);
  EXPECT_EQ(sent[0].wr_id, 4U);
  EXPECT_EQ(sent[0].status, completion_status::remote_operation_error);
  EXPECT_EQ(sent[1].status, completion_status::flushed);
  EXPECT_TRUE(target.holds(2, 32, 8, 32));
}

TEST_F(lists_of_sends, list_ends_at_the_request_whose_local_key_is_invalid) {
  post_receives(0, 8);
  pair.a->qp->sends().open();
  for (std::uint64_t id = 0; id < 6; ++id) {
    sge piece = source.slice(id * 8, 8);
    if (id == 3) piece.lkey ^= 1;
    ASSERT_EQ(pair.a->qp->sends().add({.wr_id = id, .flags = signaled}, {&piece, 1}), 0);
  }
  pair.a->qp->sends().submit();
  const auto sent = pair.wait_for(*pair.a->sent, 6);
  ASSERT_EQ(sent.size(), 6U);
  for (std::uint64_t id = 0; id < 6; ++id) {
    EXPECT_EQ(sent[id].wr_id, id);
    EXPECT_EQ(sent[id].status, id < 3    ? completion_status::success
                               : id == 3 ? completion_status::local_protection_error
                                         : completion_status::flushed);
  }
  EXPECT_EQ(pair.wait_for(*pair.b->received, 3).size(), 3U);
}

TEST_F(lists_of_sends, fenced_request_of_a_list_waits_for_an_atomic) {
  device_pair by_ring({.route = route_policy::ring});
  by_ring.connect_ends();
  const shared_buffer from(by_ring.left, memory_kind::ordinary, 64, 1);
  const shared_buffer to(by_ring.right, memory_kind::ordinary, 64, 2);
  by_ring.settle();
  for (std::uint64_t id = 0; id < 2; ++id)
    ASSERT_EQ(post_receive(*by_ring.b->qp, id, {to.slice(8, 8)}), 0);
  const auto before = by_ring.left.path->counters().by_ring;
  const sge piece = from.slice(0, 8);
  send_posting& sends = by_ring.a->qp->sends();
  sends.open();
  EXPECT_EQ(sends.add({.opcode = opcode::fetch_add,
                       .remote_address = to.address(),
                       .remote_key = to.key(),
                       .compare_or_add = 1},
                      {&piece, 1}),
            0);
  EXPECT_EQ(sends.add({.opcode = opcode::send}, {&piece, 1}), 0);
  EXPECT_EQ(sends.add({.flags = signaled | send_flag::fence}, {&piece, 1}), 0);
  sends.submit();
  EXPECT_EQ(by_ring.left.path->counters().by_ring - before, 2U);
  EXPECT_EQ(by_ring.wait_for(*by_ring.a->sent, 1).at(0).status, completion_status::success);
  EXPECT_EQ(by_ring.wait_for(*by_ring.b->received, 2).size(), 2U);
}

TEST_F(lists_of_sends, overrun_of_the_completion_queue_loses_one_receive) {
  pair.b = &pair.right.make({.completions = 4});
  pair.a = &pair.left.make();
  pair.connect_ends();
  post_receives(0, 8);
  post_list(0, 6);
  EXPECT_TRUE(pair.until([&] { return pair.b->received->overrun(); }));
  EXPECT_EQ(pair.b->qp->state(), queue_pair_state::error);
  const auto received = drain(*pair.b->received);
  ASSERT_GE(received.size(), 4U);
  expect_words(0, {received.begin(), received.begin() + 4});
}

}  // namespace
}  // namespace verbena::softdev::testing
