// SPDX-License-Identifier: MIT
// Long payloads in shareable memory: the responder copies them from the requester's memory, and
// what a receive completes with is what was sent, whatever becomes of the requester.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "softdev/core/shared_receive_queue.hpp"
#include "softdev/fabric/records.hpp"
#include "tests/unit/softdev/fabric/device_pair.hpp"
#include "tests/unit/softdev/failing_allocations.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::size_t mib = 1U << 20U;
constexpr attribute_mask only_state = attribute::state;

/// The receives of `b` have the same offsets in `target` as the sends of `a` in `source`.
struct pulls : ::testing::Test {
  explicit pulls(const link_options& options = {}) : pair(options) { pair.connect_ends(); }

  [[nodiscard]] std::uint64_t by_reference() const {
    return pair.left.path->counters().by_reference;
  }
  [[nodiscard]] std::uint64_t position() {
    return pair.left.peer_link->find(pair.right.peer_link->slot())->position();
  }
  int send(std::size_t at, std::size_t bytes, std::uint64_t wr_id = 1) {
    return post(*pair.a->qp, {.wr_id = wr_id, .flags = signaled}, {source.slice(at, bytes)});
  }
  int receive(std::size_t at, std::size_t bytes, std::uint64_t wr_id = 2) {
    return post_receive(*pair.b->qp, wr_id, {target.slice(at, bytes)});
  }
  /// Sends a message that arrives.
  void deliver(std::size_t at, std::size_t bytes) {
    ASSERT_EQ(receive(at, bytes), 0);
    ASSERT_EQ(send(at, bytes), 0);
    ASSERT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
    const completion received = pair.wait_for(*pair.b->received, 1).at(0);
    ASSERT_EQ(received.status, completion_status::success);
    ASSERT_EQ(received.byte_count, bytes);
  }
  /// Sends until the responder has mapped the memory of the source.
  void warm() {
    std::uint64_t before = by_reference();
    for (int i = 0; i < 100 && by_reference() - before < 2; ++i) deliver(3 * mib, 4096);
    ASSERT_GE(by_reference(), before + 2);
  }
  /// Has the responder copy the first part of a message of a MiB.
  void begin_message() {
    ASSERT_EQ(receive(0, mib), 0);
    ASSERT_EQ(send(0, mib), 0);
    ASSERT_TRUE(pair.right.path->progress() || pair.right.path->unfinished());
    ASSERT_TRUE(pair.b->qp->receiver().busy());
    ASSERT_GT(pair.b->qp->receiver().placed(), 0U);
    ASSERT_LT(pair.b->qp->receiver().placed(), mib);
  }
  void overwrite() { std::memset(source.data(), 0, 2 * mib); }
  void expect_no_message() {
    pair.settle();
    EXPECT_TRUE(pair.b->received->empty());
    EXPECT_FALSE(pair.b->qp->receiver().busy());
  }

  device_pair pair;
  shared_buffer source{pair.left, memory_kind::shareable, 4 * mib, 1};
  shared_buffer target{pair.right, memory_kind::shareable, 4 * mib, 2};
};

TEST_F(pulls, first_message_of_an_arena_arrives_and_later_ones_are_pulled) {
  deliver(0, 8192);
  EXPECT_TRUE(target.holds(1, 0, 8192, 0));
  EXPECT_EQ(by_reference(), 1U);
  warm();
  const std::uint64_t before = by_reference();
  for (std::size_t i = 0; i < 20; ++i) deliver(i * 8192, 8192);
  EXPECT_EQ(by_reference(), before + 20);
  EXPECT_TRUE(target.holds(1, 0, std::size_t{20} * 8192, 0));
}

TEST_F(pulls, payload_of_4096_bytes_or_more_is_not_in_the_ring) {
  warm();
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{65'536}, mib, mib + 3, 2 * mib}) {
    const std::uint64_t at = position();
    deliver(mib / 2 + 1, bytes);
    EXPECT_LE(position() - at, 256U) << bytes;
    EXPECT_TRUE(target.holds(1, mib / 2 + 1, bytes, mib / 2 + 1)) << bytes;
    std::memset(target.data(), 0, 4 * mib);
  }
  const std::uint64_t at = position();
  const std::uint64_t before = by_reference();
  deliver(100, 4095);
  EXPECT_GE(position() - at, 4095U);
  EXPECT_EQ(by_reference(), before);
  EXPECT_TRUE(target.holds(1, 100, 4095, 100));
}

TEST_F(pulls, elements_are_gathered_and_scattered) {
  warm();
  const std::uint64_t before = by_reference();
  ASSERT_EQ(post_receive(*pair.b->qp, 2,
                         {target.slice(0, 3), target.slice(100, 0), target.slice(1000, 300'000),
                          target.slice(mib, mib)}),
            0);
  ASSERT_EQ(post(*pair.a->qp,
                 {.wr_id = 1, .opcode = opcode::send_with_imm, .flags = signaled, .immediate = 77},
                 {source.slice(11, 5), source.slice(0, 0), source.slice(5000, 400'000),
                  source.slice(mib, 100)}),
            0);
  const completion received = pair.wait_for(*pair.b->received, 1).at(0);
  EXPECT_EQ(received.status, completion_status::success);
  EXPECT_EQ(received.byte_count, 400'105U);
  EXPECT_EQ(received.immediate, 77U);
  EXPECT_TRUE(target.holds(1, 0, 3, 11));
  EXPECT_TRUE(target.holds(1, 1000, 2, 14));
  EXPECT_TRUE(target.holds(1, 1002, 299'998, 5000));
  EXPECT_TRUE(target.holds(1, mib, 100'002, 304'998));
  EXPECT_TRUE(target.holds(1, mib + 100'002, 100, mib));
  EXPECT_EQ(by_reference(), before + 1);
}

TEST_F(pulls, write_with_immediate_is_pulled) {
  warm();
  const std::uint64_t before = by_reference();
  ASSERT_EQ(post_receive(*pair.b->qp, 2, {}), 0);
  ASSERT_EQ(post(*pair.a->qp,
                 {.wr_id = 1,
                  .opcode = opcode::rdma_write_with_imm,
                  .flags = signaled,
                  .immediate = 5,
                  .remote_address = target.address() + 9,
                  .remote_key = target.key()},
                 {source.slice(3, mib)}),
            0);
  const completion received = pair.wait_for(*pair.b->received, 1).at(0);
  EXPECT_EQ(received.opcode, completion_opcode::receive_rdma_with_imm);
  EXPECT_EQ(received.byte_count, mib);
  EXPECT_EQ(received.immediate, 5U);
  EXPECT_TRUE(target.holds(1, 9, mib, 3));
  EXPECT_EQ(by_reference(), before + 1);
}

TEST_F(pulls, refused_write_with_immediate_fails_with_remote_access_error) {
  warm();
  ASSERT_EQ(post_receive(*pair.b->qp, 2, {}), 0);
  ASSERT_EQ(post(*pair.a->qp,
                 {.wr_id = 1,
                  .opcode = opcode::rdma_write_with_imm,
                  .flags = signaled,
                  .remote_address = target.address() + 4 * mib - 4096,
                  .remote_key = target.key()},
                 {source.slice(0, 8192)}),
            0);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::remote_access_error);
}

TEST_F(pulls, ordinary_memory_goes_through_the_ring) {
  const shared_buffer private_source(pair.left, memory_kind::ordinary, 65'536, 3);
  ASSERT_EQ(receive(0, 70'000), 0);
  ASSERT_EQ(post(*pair.a->qp, {.flags = signaled},
                 {source.slice(0, 100), private_source.slice(0, 65'536)}),
            0);
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).byte_count, 65'636U);
  EXPECT_TRUE(target.holds(1, 0, 100, 0));
  EXPECT_TRUE(target.holds(3, 100, 65'536, 0));
  EXPECT_EQ(by_reference(), 0U);
}

struct pulls_without_cma : pulls {
  pulls_without_cma() : pulls({.route = route_policy::no_cma}) {}
};
TEST_F(pulls_without_cma, write_to_ordinary_memory_is_pulled) {
  warm();
  const std::uint64_t before = by_reference();
  const shared_buffer ordinary(pair.right, memory_kind::ordinary, mib, 5);
  ASSERT_EQ(post(*pair.a->qp,
                 {.wr_id = 1,
                  .opcode = opcode::rdma_write,
                  .flags = signaled,
                  .remote_address = ordinary.address() + 1,
                  .remote_key = ordinary.key()},
                 {source.slice(7, mib - 2)}),
            0);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
  EXPECT_TRUE(ordinary.holds(5, 0, 1, 0));
  EXPECT_TRUE(ordinary.holds(1, 1, mib - 2, 7));
  EXPECT_TRUE(ordinary.holds(5, mib - 1, 1, mib - 1));
  EXPECT_EQ(by_reference(), before + 1);
}

struct pulls_by_ring : pulls {
  pulls_by_ring() : pulls({.route = route_policy::ring}) {}
};
TEST_F(pulls_by_ring, nothing_is_pulled_if_the_route_is_the_ring) {
  for (int i = 0; i < 3; ++i) deliver(0, 65'536);
  EXPECT_TRUE(target.holds(1, 0, 65'536, 0));
  EXPECT_EQ(by_reference(), 0U);
}

TEST_F(pulls, requests_are_executed_in_order) {
  warm();
  const std::uint64_t before = by_reference();
  ASSERT_EQ(receive(0, mib, 10), 0);
  ASSERT_EQ(receive(mib, 100, 11), 0);
  ASSERT_EQ(receive(2 * mib, 8192, 12), 0);
  shared_buffer sink(pair.left, memory_kind::ordinary, 8192, 4);
  pair.a->qp->sends().open();
  const auto add = [&](opcode op, std::uint64_t wr_id, std::uint64_t at, sge piece) {
    EXPECT_EQ(pair.a->qp->sends().add({.wr_id = wr_id,
                                       .opcode = op,
                                       .flags = signaled,
                                       .remote_address = target.address() + at,
                                       .remote_key = target.key()},
                                      {&piece, 1}),
              0);
  };
  add(opcode::send, 0, 0, source.slice(0, mib));
  add(opcode::rdma_write, 1, 0, source.slice(5000, 8));  // over the first message
  add(opcode::send, 2, 0, source.slice(mib, 100));
  add(opcode::rdma_read, 3, 0, sink.slice(0, 4096));  // what the two left
  add(opcode::send, 4, 0, source.slice(2 * mib, 8192));
  add(opcode::rdma_write, 5, 4000, source.slice(9000, 8192));  // a long one
  pair.a->qp->sends().submit();
  const auto received = pair.wait_for(*pair.b->received, 3);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(received[i].wr_id, 10 + i);
  const auto sent = pair.wait_for(*pair.a->sent, 6);
  for (std::uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(sent[i].wr_id, i);
    EXPECT_EQ(sent[i].status, completion_status::success);
  }
  EXPECT_TRUE(sink.holds(1, 0, 8, 5000));
  EXPECT_TRUE(sink.holds(1, 8, 4088, 8));
  EXPECT_TRUE(target.holds(1, 4000, 8192, 9000));
  EXPECT_TRUE(target.holds(1, mib, 100, mib));
  EXPECT_TRUE(target.holds(1, 2 * mib, 8192, 2 * mib));
  EXPECT_EQ(by_reference(), before + 2);
}

TEST_F(pulls, message_without_receive_waits_for_the_rnr_timer) {
  warm();
  ASSERT_EQ(send(0, mib), 0);
  pair.settle();
  EXPECT_TRUE(pair.a->sent->empty());
  ASSERT_EQ(receive(0, mib), 0);
  pair.pass_time(640'000);
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).status, completion_status::success);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
  EXPECT_TRUE(target.holds(1, 0, mib, 0));
}

TEST_F(pulls, message_longer_than_receive_buffer_fails_on_both_sides) {
  warm();
  ASSERT_EQ(receive(0, 8191), 0);
  ASSERT_EQ(send(0, 8192), 0);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status,
            completion_status::remote_invalid_request);
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).status,
            completion_status::local_length_error);
  EXPECT_TRUE(target.holds(2, 0, 8192, 0));
}

TEST_F(pulls, receive_that_may_not_be_written_fails_on_both_sides) {
  warm();
  const shared_buffer locked(pair.right, memory_kind::ordinary, 8192, 5, access_flags());
  ASSERT_EQ(post_receive(*pair.b->qp, 2, {locked.slice(0, 8192)}), 0);
  ASSERT_EQ(send(0, 8192), 0);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status,
            completion_status::remote_operation_error);
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).status,
            completion_status::local_protection_error);
  EXPECT_TRUE(locked.holds(5, 0, 8192, 0));
}

TEST_F(pulls, injected_faults_apply_to_them) {
  warm();
  pair.left.core->add_fault({.effect = fault_effect::receiver_not_ready,
                             .repetitions = 2,
                             .rnr_timer = 12,
                             .at = 1,
                             .count = 1});
  ASSERT_EQ(receive(0, 8192), 0);
  ASSERT_EQ(send(0, 8192), 0);
  pair.settle();
  EXPECT_TRUE(pair.a->sent->empty());
  for (int i = 0; i < 3; ++i) pair.pass_time(640'000);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).status, completion_status::success);
  pair.left.core->remove_faults();
  pair.left.core->add_fault({.effect = fault_effect::error,
                             .status = completion_status::remote_operation_error,
                             .delivered = true});
  ASSERT_EQ(receive(8192, 8192), 0);
  ASSERT_EQ(send(8192, 8192), 0);
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).status, completion_status::success);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status,
            completion_status::remote_operation_error);
  EXPECT_TRUE(target.holds(1, 0, 16'384, 0));
}

TEST_F(pulls, long_message_does_not_delay_other_work_of_the_receiver) {
  warm();
  end_point& other = pair.right.make();
  end_point& mine = pair.left.make();
  connect(*other.qp, connection_to(mine.qp->number()));
  connect(*mine.qp, connection_to(other.qp->number()));
  ASSERT_EQ(post_receive(*mine.qp, 9, {source.slice(3 * mib, 8)}), 0);
  begin_message();
  // The message is not over, and the process does something else in between.
  ASSERT_EQ(post(*other.qp, {.flags = signaled}, {target.slice(3 * mib, 8)}), 0);
  pair.left.turn();
  EXPECT_EQ(only(*mine.received).wr_id, 9U);
  EXPECT_TRUE(pair.b->qp->receiver().busy());
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).byte_count, mib);
  EXPECT_TRUE(target.holds(1, 0, mib, 0));
}

// ---- The requester ends its requests before the responder has copied ----

struct ending {
  const char* name;
  void (*end)(pulls& test);
};
void fail_requester(pulls& test) { to_error(*test.pair.a->qp); }
void reset_requester(pulls& test) {
  test.pair.a->qp->modify({.state = queue_pair_state::reset}, only_state).value();
}
void reconnect_requester(pulls& test) {
  reset_requester(test);
  connect(*test.pair.a->qp, connection_to(test.pair.b->qp->number()));
}
void destroy_requester(pulls& test) {
  test.pair.left.core->destroy(test.pair.a->qp);
  test.pair.left.ends.erase(test.pair.left.ends.begin());
  test.pair.a = nullptr;
}

class ended_requests : public pulls, public ::testing::WithParamInterface<ending> {};

TEST_P(ended_requests, message_that_was_not_pulled_is_lost) {
  warm();
  ASSERT_EQ(receive(0, 8192), 0);
  ASSERT_EQ(send(0, 8192), 0);
  GetParam().end(*this);
  overwrite();
  expect_no_message();
  EXPECT_TRUE(target.holds(2, 0, 8192, 0));
  EXPECT_EQ(pair.b->qp->state(), queue_pair_state::rts);
}

TEST_P(ended_requests, message_that_was_pulled_in_part_is_lost) {
  warm();
  begin_message();
  GetParam().end(*this);
  overwrite();
  expect_no_message();
  EXPECT_EQ(pair.b->qp->state(), queue_pair_state::rts);
}

INSTANTIATE_TEST_SUITE_P(by, ended_requests,
                         ::testing::Values(ending{"error", fail_requester},
                                           ending{"reset", reset_requester},
                                           ending{"reconnection", reconnect_requester},
                                           ending{"destruction", destroy_requester}),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

TEST_F(pulls, request_that_fails_before_them_makes_later_ones_void) {
  warm();
  pair.left.core->add_fault({.effect = fault_effect::error,
                             .status = completion_status::remote_operation_error,
                             .delivered = true,
                             .at = 1});
  ASSERT_EQ(receive(0, 100, 1), 0);
  ASSERT_EQ(receive(0, mib, 2), 0);
  ASSERT_EQ(send(0, 100, 3), 0);
  ASSERT_EQ(send(0, mib, 4), 0);
  while (pair.b->received->empty()) pair.right.path->progress();
  EXPECT_EQ(only(*pair.b->received).wr_id, 1U);
  ASSERT_TRUE(pair.b->qp->receiver().busy());
  const auto sent = pair.wait_for(*pair.a->sent, 2);
  EXPECT_EQ(sent[0].status, completion_status::remote_operation_error);
  EXPECT_EQ(sent[1].status, completion_status::flushed);
  overwrite();
  expect_no_message();
}

TEST_F(pulls, lost_pairing_makes_them_void) {
  warm();
  begin_message();
  EXPECT_EQ(pair.left.peer_link->lose_peers(std::nullopt), 1U);
  // Only the requester notices.
  while (pair.a->sent->empty()) pair.left.turn();
  EXPECT_EQ(only(*pair.a->sent).status, completion_status::retry_exceeded);
  overwrite();
  pair.settle();
  EXPECT_TRUE(pair.b->received->empty() ||
              only(*pair.b->received).status != completion_status::success);
}

TEST_F(pulls, deregistered_memory_fails_with_local_protection_error) {
  warm();
  ASSERT_EQ(receive(0, mib), 0);
  ASSERT_EQ(send(0, mib), 0);
  source.deregister();
  overwrite();
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status,
            completion_status::local_protection_error);
  expect_no_message();
}

TEST_F(pulls, memory_that_is_deregistered_in_between_fails_with_local_protection_error) {
  warm();
  begin_message();
  source.deregister();
  overwrite();
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status,
            completion_status::local_protection_error);
  expect_no_message();
}

TEST_F(pulls, memory_whose_pages_move_is_sent_through_the_ring) {
  warm();
  begin_message();
  pair.left.peer_link->segment().freeze_regions(source.address(), 4 * mib);
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).byte_count, mib);
  EXPECT_TRUE(target.holds(1, 0, mib, 0));
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
  pair.left.peer_link->segment().thaw_regions(source.address(), 4 * mib);
}

TEST_F(pulls, replaced_pages_are_read_where_they_are_now) {
  warm();
  ASSERT_EQ(receive(0, mib), 0);
  ASSERT_EQ(send(0, mib), 0);
  auto& arenas = pair.left.peer_link->arenas();
  const auto moved = arenas.replace_pages(source.data()).value();
  pair.left.peer_link->segment().rebind_regions(moved.address, moved.length, moved.arena,
                                                moved.arena_base);
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).byte_count, mib);
  EXPECT_TRUE(target.holds(1, 0, mib, 0));
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
}

TEST_F(pulls, responder_that_is_reset_in_between_starts_again) {
  warm();
  begin_message();
  pair.b->qp->modify({.state = queue_pair_state::reset}, only_state).value();
  connect(*pair.b->qp, connection_to(pair.a->qp->number()));
  EXPECT_TRUE(pair.b->received->empty());
  expect_no_message();
}

TEST_F(pulls, receive_of_a_shared_queue_is_used_again_after_a_lost_message) {
  warm();
  shared_receive_queue shared({.domain = domain_id{1}, .max_wr = 4});
  completion_queue sent({.capacity = 8});
  completion_queue received({.capacity = 8});
  queue_pair* const end = pair.right.core
                              ->create({.domain = domain_id{1},
                                        .send_queue = &sent,
                                        .receive_queue = &received,
                                        .shared_receives = &shared,
                                        .capabilities = {}})
                              .value();
  end_point& mine = pair.left.make();
  connect(*end, connection_to(mine.qp->number()));
  connect(*mine.qp, connection_to(end->number()));
  const sge sink = target.slice(0, mib);
  shared.open();
  ASSERT_EQ(shared.add(8, {&sink, 1}), 0);
  shared.close();
  ASSERT_EQ(post(*mine.qp, {.flags = signaled}, {source.slice(0, mib)}), 0);
  while (!end->receiver().busy()) pair.right.path->progress();
  reset_requester(*this);
  mine.qp->modify({.state = queue_pair_state::reset}, only_state).value();
  overwrite();
  pair.settle();
  EXPECT_TRUE(received.empty());
  connect(*mine.qp, connection_to(end->number()));
  ASSERT_EQ(post(*mine.qp, {.flags = signaled}, {source.slice(2 * mib, mib)}), 0);
  EXPECT_EQ(pair.wait_for(received, 1).at(0).wr_id, 8U);
  EXPECT_TRUE(target.holds(1, 0, mib, 2 * mib));
  pair.right.core->destroy(end);
}

#ifdef VERBENA_FAILS_ALLOCATIONS
TEST_F(pulls, receiver_without_memory_for_a_mapping_receives_through_the_ring) {
  pair.settle();
  ASSERT_EQ(receive(0, 8192), 0);
  ASSERT_EQ(send(0, 8192), 0);
  fail_allocation(1);
  pair.right.path->progress();
  EXPECT_GE(permit_allocations(), 1U);
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).byte_count, 8192U);
  EXPECT_TRUE(target.holds(1, 0, 8192, 0));
  EXPECT_EQ(by_reference(), 1U);
}
#endif

// ---- A requester, or a responder, that says anything ----

TEST_F(pulls, invalid_references_are_refused_or_dropped) {
  warm();
  const auto to = pair.left.peer_link->find(pair.right.peer_link->slot());
  const shared_buffer ordinary(pair.left, memory_kind::ordinary, 65'536, 3);
  // Their memory is in one arena.
  const shared_buffer small(pair.left, memory_kind::shareable, 8192, 4);
  const shared_buffer beside(pair.left, memory_kind::shareable, 8192, 4);
  const std::uint64_t valid =
      pair.left.peer_link->segment().line(pair.a->qp->number()).notes[2].load();
  const std::uint64_t end = source.address() + 4 * mib;
  struct forged {
    std::vector<sge> elements;
    std::uint32_t length;
    std::uint64_t generation;
  };
  const std::vector<forged> all{
      {{{source.address(), 8192, 0}}, 8192, valid},
      {{{source.address(), 8192, 0x1234567}}, 8192, valid},
      {{{source.address(), 8192, target.key()}}, 8192, valid},
      {{{source.address() - 1, 8192, source.key()}}, 8192, valid},
      {{{end - 8191, 8192, source.key()}}, 8192, valid},
      {{{~std::uint64_t{0} - 100, 8192, source.key()}}, 8192, valid},
      {{{source.address(), 1U << 30U, source.key()}}, 1U << 30U, valid},
      {{{ordinary.address(), 8192, ordinary.key()}}, 8192, valid},
      {{{small.address() + 1, 8192, small.key()}}, 8192, valid},
      {{{beside.address(), 8192, small.key()}}, 8192, valid},
      {{{small.address(), 8192, beside.key()}}, 8192, valid},
      {{{source.address(), 8192, source.key()}}, 8192, valid + 1},
      {{{source.address(), 8192, source.key()}}, 8192, 0},
  };
  // The responder maps the arena of the small regions.
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(receive(2 * mib, 8192), 0);
    ASSERT_EQ(post(*pair.a->qp, {}, {small.slice(0, 4096), beside.slice(0, 4096)}), 0);
    ASSERT_EQ(pair.wait_for(*pair.b->received, 1).at(0).status, completion_status::success);
  }
  for (const forged& each : all) {
    ASSERT_EQ(receive(0, 4 * mib), 0);
    message what{.source_qpn = pair.a->qp->number(),
                 .destination_qpn = pair.b->qp->number(),
                 .length = each.length};
    // The number that the responder expects; the requester does not count these requests.
    for (what.psn = 100; what.psn < 400; ++what.psn) {
      const auto lock = to->lock_sends();
      const auto bytes = records::reference_bytes(transport::rc, opcode::send, 1);
      const auto record = to->try_reserve(records::reference, bytes);
      ASSERT_EQ(record.status, ring_status::ok);
      std::span<std::byte> room = record.payload;
      records::put_reference(room, what, each.generation, each.elements.size());
      for (const sge& element : each.elements) records::put(room, element);
      to->commit();
      to->announce();
    }
    pair.settle();
    ASSERT_EQ(to->state(), peer_state::paired);
    for (const completion& one : drain(*pair.b->received))
      EXPECT_NE(one.status, completion_status::success);
    if (pair.b->qp->state() == queue_pair_state::error) {
      for (auto* end_of : {pair.a, pair.b})
        end_of->qp->modify({.state = queue_pair_state::reset}, only_state).value();
      pair.connect_ends();
    }
  }
  EXPECT_TRUE(target.holds(2, 0, mib, 0));
}

TEST_F(pulls, false_place_of_a_region_is_refused) {
  warm();
  auto& segment = pair.left.peer_link->segment();
  region_record wrong{.key = source.key(),
                      .pd = 1,
                      .access = everything.mask(),
                      .iova = source.address(),
                      .length = 4 * mib,
                      .address = source.address(),
                      .arena = pair.left.peer_link->arenas().acquire(source.data(), 1)->arena};
  pair.left.peer_link->arenas().release(source.data());
  for (const std::uint64_t offset : {4 * mib, ~std::uint64_t{0} - 8191, std::uint64_t{1} << 40U}) {
    segment.withdraw_region(source.key());
    wrong.arena_offset = offset;
    ASSERT_TRUE(segment.publish_region(wrong));
    deliver(0, mib);  // through the ring
    EXPECT_TRUE(target.holds(1, 0, mib, 0));
  }
}

TEST_F(pulls, refusal_that_nothing_explains_is_dropped) {
  warm();
  ASSERT_EQ(receive(0, 100), 0);
  const auto from = pair.right.peer_link->find(pair.left.peer_link->slot());
  ASSERT_EQ(send(0, 100), 0);
  const std::uint64_t before = pair.left.path->counters().dropped;
  for (std::uint32_t psn = 100; psn < 400; ++psn) {
    const message what{
        .source_qpn = pair.a->qp->number(), .destination_qpn = pair.b->qp->number(), .psn = psn};
    ASSERT_TRUE(send_answer(*from, what, {.outcome = verdict::unread}));
  }
  pair.left.turn();
  pair.left.turn();
  EXPECT_GE(pair.left.path->counters().dropped, before + 299);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
}

// ---- Processes and threads ----

TEST(dying_requester, message_that_is_being_pulled_is_whole_or_lost) {
  device mine({});
  end_point& end = mine.make();
  virtual_now = 1'000'000;
  shared_buffer target(mine, memory_kind::shareable, 4 * mib, 2);
  child other([&](int pipe) -> int {
    device theirs({});
    end_point& sender = theirs.make();
    const shared_buffer source(theirs, memory_kind::shareable, 4 * mib, 1);
    connect(*sender.qp, connection_to(end.qp->number()));
    send_value(pipe, sender.qp->number());
    for (std::uint64_t sent = 0;;) {
      if (sent < 40 && post(*sender.qp, {.flags = signaled}, {source.slice(0, 4 * mib)}) == 0)
        ++sent;
      theirs.turn();
      static_cast<void>(drain(*sender.sent));
    }
  });
  connect(*end.qp, connection_to(other.read<std::uint32_t>()));
  // The first messages come through the ring. One that is pulled stops between two of its parts.
  const auto give_up = clock::now() + test_timeout;
  bool pulled = false;
  std::uint64_t placed = 0;
  for (int i = 0; i < 30; ++i) ASSERT_EQ(post_receive(*end.qp, 7, {target.slice(0, 4 * mib)}), 0);
  while (!pulled && clock::now() < give_up) {
    mine.turn();
    pulled = mine.path->unfinished() && end.qp->receiver().busy();
    placed = end.qp->receiver().placed();
  }
  ASSERT_TRUE(pulled);
  ASSERT_LT(placed, 4 * mib);
  static_cast<void>(drain(*end.received));
  other.send(SIGKILL);
  static_cast<void>(other.wait());
  std::memset(target.data(), 0, placed);
  const auto rest = 4 * mib - placed;
  for (int i = 0; i < 1000 && end.received->empty(); ++i) mine.turn();
  const auto received = drain(*end.received);
  if (!received.empty()) {
    EXPECT_EQ(received[0].status, completion_status::success);
    EXPECT_TRUE(target.holds(1, placed, rest, placed));
  }
}

// The requester ends its requests at any moment, and changes the memory at once.
TEST(racing_requester, received_messages_are_what_was_sent) {
  device_pair pair;
  pair.connect_ends();
  constexpr std::size_t bytes = mib;
  constexpr std::uint8_t never_sent = 252;
  const shared_buffer source(pair.left, memory_kind::shareable, bytes, 1);
  const shared_buffer target(pair.right, memory_kind::shareable, bytes, 2);
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> torn{0};
  std::atomic<std::uint64_t> whole{0};
  std::thread receiver([&] {
    static_cast<void>(post_receive(*pair.b->qp, 1, {target.slice(0, bytes)}));
    while (!over) {
      pair.right.turn();
      for (const completion& one : drain(*pair.b->received)) {
        if (one.status != completion_status::success) continue;
        const std::byte first = target.data()[0];
        const bool same = first != std::byte{never_sent} &&
                          std::all_of(target.data(), target.data() + bytes,
                                      [&](std::byte each) { return each == first; });
        ++(same ? whole : torn);
        static_cast<void>(post_receive(*pair.b->qp, 1, {target.slice(0, bytes)}));
      }
      if (pair.b->qp->state() != queue_pair_state::error) continue;
      pair.b->qp->modify({.state = queue_pair_state::reset}, only_state).value();
      connect(*pair.b->qp, connection_to(pair.a->qp->number()));
      static_cast<void>(post_receive(*pair.b->qp, 1, {target.slice(0, bytes)}));
    }
  });
  std::uint32_t turns = 0;
  const auto give_up = clock::now() + test_timeout;
  for (int round = 0; (round < 400 || whole < 50) && clock::now() < give_up; ++round) {
    std::memset(source.data(), round % 251, bytes);
    static_cast<void>(post(*pair.a->qp, {.flags = signaled}, {source.slice(0, bytes)}));
    const bool waits = round % 4 != 3;  // three messages arrive, and the fourth is cut off
    for (std::uint32_t i = 0;
         waits ? pair.a->sent->empty() && clock::now() < give_up : i < turns % 50; ++i)
      pair.left.turn();
    turns += 7;
    if (waits) {
      static_cast<void>(drain(*pair.a->sent));
      continue;
    }
    to_error(*pair.a->qp);
    std::memset(source.data(), never_sent, bytes);
    static_cast<void>(drain(*pair.a->sent));
    // Both sides begin again with the numbers that the other one expects.
    pair.a->qp->modify({.state = queue_pair_state::reset}, only_state).value();
    to_error(*pair.b->qp);
    while (pair.b->qp->state() != queue_pair_state::rts) std::this_thread::yield();
    connect(*pair.a->qp, connection_to(pair.b->qp->number()));
  }
  over = true;
  receiver.join();
  EXPECT_EQ(torn, 0U);
  EXPECT_GE(whole, 50U);
  EXPECT_GT(pair.left.path->counters().by_reference, 50U);
}

}  // namespace
}  // namespace verbena::softdev::testing
