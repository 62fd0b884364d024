// SPDX-License-Identifier: MIT
// The requests in flight of a requester: order, fences, cumulative acknowledgements,
// retransmission, invalid answers.
#include <algorithm>
#include <cerrno>
#include <mutex>

#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

/// A path that records submitted requests and behaves as the test specifies.
class scripted_path final : public remote_path {
 public:
  response submit(queue_pair&, const message& what, std::span<const segment>,
                  bool earlier_done) noexcept override {
    submitted.push_back(what);
    alone.push_back(earlier_done);
    return next;
  }
  void changed(queue_pair&, bool) noexcept override {}
  void fence() noexcept override { ++fences; }

  response next{.outcome = verdict::pending};
  std::vector<message> submitted;
  std::vector<bool> alone;
  int fences = 0;
};

class window : public fabric {
 protected:
  window() {
    home->routes().set_remote(&path);
    connect(*a.qp, connection_to(0x123456));
  }
  ~window() override {
    for (auto& end : ends) home->destroy(end->qp);
    ends.clear();
  }
  void post_one(opcode op, std::uint64_t id, send_flags extra = {}) {
    ASSERT_EQ(post(*a.qp, {.wr_id = id, .opcode = op, .flags = signaled | extra},
                   {memory.slice(id * 8, 8)}),
              0);
  }
  /// Answers the submitted request `index`.
  bool answer(std::size_t index, const response& what = {}) {
    const message& asked = path.submitted.at(index);
    const access_epoch::guard inside(home->epoch());
    const std::lock_guard lock(a.qp->send_lock());
    const bool fits = a.qp->sender().answer(id_of(asked), what);
    a.qp->sender().run();
    return fits;
  }
  bool place(std::size_t index, std::uint64_t offset, std::span<const std::byte> bytes) {
    const message& asked = path.submitted.at(index);
    const access_epoch::guard inside(home->epoch());
    const std::lock_guard lock(a.qp->send_lock());
    return a.qp->sender().place(id_of(asked), offset, bytes);
  }
  static request_id id_of(const message& asked) {
    return {asked.destination_qpn, asked.psn, asked.attempt};
  }
  std::vector<std::uint64_t> completed() {
    std::vector<std::uint64_t> ids;
    for (const completion& one : drain(*a.sent)) ids.push_back(one.wr_id);
    return ids;
  }

  scripted_path path;
  end_point& a = make();
  buffer memory{*home, 4096, everything, 1};
};

using ids = std::vector<std::uint64_t>;

/// Keeps what it learns.
struct kept_answers final : traffic_observer {
  void answered(queue_pair& /*sender*/, const answered_request& which,
                const response& what) noexcept override {
    numbers.push_back(which.psn);
    sinks.emplace_back(which.sinks.begin(), which.sinks.end());
    outcomes.push_back(what.outcome);
  }
  std::vector<std::uint32_t> numbers;
  std::vector<std::vector<segment>> sinks;
  std::vector<verdict> outcomes;
};

class observed_window : public fabric {
 protected:
  observed_window() { home->routes().observe(path, answers); }
  ~observed_window() override {
    for (auto& end : ends) home->destroy(end->qp);
    ends.clear();
  }
  void answer(end_point& from, std::size_t index, const response& what = {}) {
    const message& asked = path.submitted.at(index);
    const access_epoch::guard inside(home->epoch());
    const std::lock_guard lock(from.qp->send_lock());
    from.qp->sender().answer({asked.destination_qpn, asked.psn, asked.attempt}, what);
    from.qp->sender().run();
  }
  scripted_path path;
  kept_answers answers;
};

TEST_F(observed_window, path_gets_requests_to_queue_pairs_of_the_process) {
  end_point& a = make();
  end_point& b = make();
  connect(*a.qp, connection_to(b.qp->number()));
  buffer memory{*home, 64, everything, 1};
  ASSERT_EQ(post(*a.qp, {.opcode = opcode::send, .flags = signaled}, {memory.all()}), 0);
  EXPECT_EQ(path.submitted.size(), 1U);
}

TEST_F(observed_window, observer_learns_each_answer_once) {
  end_point& a = make();
  connect(*a.qp, connection_to(0x123456));
  buffer memory{*home, 64, everything, 1};
  ASSERT_EQ(post(*a.qp, {.opcode = opcode::send, .flags = signaled}, {memory.all()}), 0);
  ASSERT_EQ(post(*a.qp, {.opcode = opcode::rdma_read, .flags = signaled}, {memory.slice(8, 16)}),
            0);
  ASSERT_EQ(path.submitted.size(), 2U);
  answer(a, 0);
  answer(a, 0);  // late
  answer(a, 1, {.outcome = verdict::access_error});
  EXPECT_EQ(answers.numbers,
            (std::vector<std::uint32_t>{path.submitted[0].psn, path.submitted[1].psn}));
  EXPECT_EQ(answers.outcomes, (std::vector{verdict::done, verdict::access_error}));
  ASSERT_EQ(answers.sinks[1].size(), 1U);
  EXPECT_EQ(answers.sinks[1][0].data, memory.data() + 8);
  EXPECT_EQ(answers.sinks[1][0].bytes, 16U);
}

TEST_F(window, requests_are_submitted_without_waiting_and_numbered) {
  for (std::uint64_t i = 0; i < 3; ++i) post_one(opcode::send, i);
  ASSERT_EQ(path.submitted.size(), 3U);
  EXPECT_EQ(path.submitted[0].psn, 100U);
  EXPECT_EQ(path.submitted[2].psn, 102U);
  EXPECT_EQ(path.alone, (std::vector<bool>{true, false, false}));
  EXPECT_EQ(completed(), ids{});
  EXPECT_TRUE(answer(0));
  EXPECT_EQ(completed(), ids{0});
}

// parity: semantics-37
TEST_F(window, acknowledgement_covers_earlier_requests) {
  for (std::uint64_t i = 0; i < 4; ++i) post_one(opcode::rdma_write, i);
  EXPECT_TRUE(answer(2));
  EXPECT_EQ(completed(), (ids{0, 1, 2}));
  EXPECT_FALSE(answer(1)) << "the request was already answered";
  EXPECT_TRUE(answer(3));
  EXPECT_EQ(completed(), ids{3});
}

TEST_F(window, request_of_unused_queue_is_in_the_first_entry) {
  send_queue& queue = a.qp->sender().queue();
  const auto last_payload = [&] { return queue.payload(queue.posted() - 1); };
  post_one(opcode::send, 0);
  const std::byte* const first = last_payload();
  post_one(opcode::send, 1);
  EXPECT_NE(last_payload(), first) << "an entry in flight is not used again";
  EXPECT_TRUE(answer(1));
  post_one(opcode::send, 2);
  EXPECT_NE(last_payload(), first) << "completions were not polled";
  EXPECT_TRUE(answer(2));
  EXPECT_EQ(completed(), (ids{0, 1, 2}));
  post_one(opcode::send, 3);
  EXPECT_EQ(last_payload(), first);
  EXPECT_FALSE(answer(0)) << "a late answer fits no request";
  EXPECT_TRUE(answer(3));
  EXPECT_EQ(completed(), ids{3});
}

TEST_F(window, queue_that_starts_over_has_its_capacity) {
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < 64; ++i) post_one(opcode::rdma_write, i);
    EXPECT_EQ(post(*a.qp, {.opcode = opcode::rdma_write}, {memory.slice(0, 8)}), ENOMEM);
    EXPECT_TRUE(answer(path.submitted.size() - 1));
    EXPECT_EQ(completed().size(), 64U);
    post_one(opcode::rdma_write, 64);
    EXPECT_TRUE(answer(path.submitted.size() - 1));
    EXPECT_EQ(completed().size(), 1U);
  }
}

TEST_F(window, answers_without_a_request_are_ignored) {
  post_one(opcode::send, 0);
  path.submitted.push_back(path.submitted[0]);
  path.submitted[1].psn = 4711;
  EXPECT_FALSE(answer(1));
  path.submitted[1] = path.submitted[0];
  path.submitted[1].attempt = 77;
  EXPECT_FALSE(answer(1));
  path.submitted[1] = path.submitted[0];
  path.submitted[1].destination_qpn = 0x123457;
  EXPECT_FALSE(answer(1)) << "only the connected queue pair answers";
  EXPECT_EQ(completed(), ids{});
  EXPECT_TRUE(answer(0));
  EXPECT_EQ(completed(), ids{0});
}

// parity: semantics-90
TEST_F(window, fenced_request_waits_for_outstanding_reads) {
  post_one(opcode::rdma_read, 0);
  post_one(opcode::rdma_write, 1);
  post_one(opcode::rdma_write, 2, send_flag::fence);
  EXPECT_EQ(path.submitted.size(), 2U);
  EXPECT_TRUE(answer(0));
  EXPECT_EQ(path.submitted.size(), 3U);
  EXPECT_EQ(path.submitted[2].psn, 102U);
}

// parity: semantics-33
TEST_F(window, reads_and_atomics_in_flight_are_limited) {
  for (std::uint64_t i = 0; i < 6; ++i)
    post_one(i % 2 == 0 ? opcode::rdma_read : opcode::fetch_add, i);
  EXPECT_EQ(path.submitted.size(), 4U) << "max_rd_atomic is 4";
  EXPECT_TRUE(answer(0));
  EXPECT_EQ(path.submitted.size(), 5U);
}

TEST_F(window, read_data_is_placed_in_its_sink) {
  post_one(opcode::rdma_read, 0);
  const std::byte bytes[4] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  EXPECT_TRUE(place(0, 4, bytes));
  EXPECT_FALSE(place(0, 5, bytes)) << "the range exceeds the read";
  EXPECT_FALSE(place(0, ~std::uint64_t{0}, bytes));
  EXPECT_TRUE(std::equal(bytes, bytes + 4, memory.data() + 4));
  EXPECT_TRUE(memory.holds(1, 0, 4, 0));
  EXPECT_TRUE(memory.holds(1, 8, 8, 8));
  EXPECT_TRUE(answer(0));
  EXPECT_EQ(completed(), ids{0});
  EXPECT_FALSE(place(0, 0, bytes)) << "the read has completed";
}

// parity: semantics-106
TEST_F(window, read_into_deregistered_sink_fails_locally) {
  buffer sink(*home, 64, everything, 2);
  ASSERT_EQ(post(*a.qp, {.wr_id = 5, .opcode = opcode::rdma_read}, {sink.all()}), 0);
  sink.deregister();
  const std::byte bytes[8] = {};
  EXPECT_TRUE(place(0, 0, bytes));
  EXPECT_FALSE(answer(0));
  EXPECT_EQ(only(*a.sent).status, completion_status::local_protection_error);
  EXPECT_TRUE(sink.holds(2, 0, 64, 0));
}

TEST_F(window, atomic_answer_returns_the_original_value) {
  post_one(opcode::fetch_add, 3);
  EXPECT_TRUE(answer(0, {.original = 0x1122334455667788}));
  EXPECT_EQ(memory.word(3), 0x1122334455667788U);
}

// parity: semantics-38
TEST_F(window, answer_that_skips_a_read_fails_with_bad_response) {
  post_one(opcode::rdma_read, 0);
  post_one(opcode::send, 1);
  EXPECT_TRUE(answer(1));
  const auto done = drain(*a.sent);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, completion_status::bad_response_error);
  EXPECT_EQ(done[1].status, completion_status::flushed);
}

// parity: semantics-36
TEST_F(window, rnr_rewinds_and_late_answers_of_the_first_attempt_are_ignored) {
  for (std::uint64_t i = 0; i < 4; ++i) post_one(opcode::send, i);
  EXPECT_TRUE(answer(1, {.outcome = verdict::receiver_not_ready, .rnr_timer = 12}));
  EXPECT_EQ(completed(), ids{0}) << "the answer also acknowledges the earlier request";
  EXPECT_EQ(path.submitted.size(), 4U);
  run_for(640'000);
  ASSERT_EQ(path.submitted.size(), 7U);
  EXPECT_EQ(path.submitted[4].psn, 101U);
  EXPECT_TRUE(path.alone[4]);
  EXPECT_FALSE(answer(2, {.outcome = verdict::no_answer}))
      << "the answer belongs to the first attempt";
  EXPECT_TRUE(answer(6));
  EXPECT_EQ(completed(), (ids{1, 2, 3}));
}

// parity: semantics-102
TEST_F(window, nak_in_the_middle_completes_in_order_and_flushes_the_rest) {
  for (std::uint64_t i = 0; i < 4; ++i) post_one(opcode::rdma_write, i);
  EXPECT_TRUE(answer(
      1, {.outcome = verdict::access_error, .why = {.why = reason::remote_range, .key = 0x77}}));
  const auto done = drain(*a.sent);
  ASSERT_EQ(done.size(), 4U);
  EXPECT_EQ(done[0].status, completion_status::success);
  EXPECT_EQ(done[1].status, completion_status::remote_access_error);
  EXPECT_EQ(done[2].status, completion_status::flushed);
  EXPECT_NE(explain(done[1]).find("rkey 0x77"), std::string::npos);
  EXPECT_FALSE(answer(3)) << "the request was flushed";
}

// parity: semantics-89
TEST_F(window, local_failure_completes_in_order) {
  post_one(opcode::send, 0);
  ASSERT_EQ(post(*a.qp, {.wr_id = 1}, {{.address = 1, .length = 1, .lkey = 0xbad}}), 0);
  ASSERT_EQ(post(*a.qp, {.wr_id = 2}, {}), 0);
  EXPECT_EQ(path.submitted.size(), 1U);
  EXPECT_EQ(completed(), ids{});
  EXPECT_TRUE(answer(0));
  const auto done = drain(*a.sent);
  ASSERT_EQ(done.size(), 3U);
  EXPECT_EQ(done[0].status, completion_status::success);
  EXPECT_EQ(done[1].status, completion_status::local_protection_error);
  EXPECT_EQ(done[2].status, completion_status::flushed);
}

TEST_F(window, blocked_request_is_sent_when_the_path_signals_room) {
  path.next = {.outcome = verdict::blocked};
  post_one(opcode::send, 0);
  post_one(opcode::send, 1);
  path.submitted.clear();
  path.next = {.outcome = verdict::pending};
  home->ring(*a.qp);
  home->progress();
  ASSERT_EQ(path.submitted.size(), 2U);
  EXPECT_EQ(path.submitted[0].psn, 100U);
}

TEST_F(window, partially_sent_request_continues_or_is_refused) {
  path.next = {.outcome = verdict::partial};
  post_one(opcode::send, 0);
  post_one(opcode::send, 1);
  for (const message& each : path.submitted) EXPECT_EQ(each.psn, 100U);
  EXPECT_TRUE(answer(0, {.outcome = verdict::receiver_not_ready, .rnr_timer = 1}));
  path.next = {.outcome = verdict::pending};
  path.submitted.clear();
  run_for(20'000);
  ASSERT_EQ(path.submitted.size(), 2U);
  EXPECT_EQ(path.submitted[0].psn, 100U);
  EXPECT_TRUE(answer(1));
  EXPECT_EQ(completed(), (ids{0, 1}));
}

TEST_F(window, directly_executed_request_consumes_no_psn) {
  path.next = {.outcome = verdict::done, .direct = true};
  post_one(opcode::rdma_write, 0);
  post_one(opcode::rdma_write, 1);
  path.next = {.outcome = verdict::pending};
  post_one(opcode::send, 2);
  EXPECT_EQ(path.submitted[2].psn, 100U);
  EXPECT_TRUE(path.alone[2]);
  EXPECT_EQ(completed(), (ids{0, 1}));
}

TEST_F(window, lost_peer_fails_the_oldest_request_and_flushes_the_rest) {
  for (std::uint64_t i = 0; i < 3; ++i) post_one(opcode::rdma_read, i);
  {
    const access_epoch::guard inside(home->epoch());
    const std::lock_guard lock(a.qp->send_lock());
    a.qp->sender().process_lost(slot_of_number(0x123456),
                                {.why = reason::peer_gone, .detail = 0x123456});
    a.qp->sender().run();
  }
  const auto done = drain(*a.sent);
  ASSERT_EQ(done.size(), 3U);
  EXPECT_EQ(done[0].status, completion_status::retry_exceeded);
  EXPECT_EQ(explain(done[0]), "the process of queue pair 0x123456 is gone: the cause is unknown");
  EXPECT_EQ(done[2].status, completion_status::flushed);
}

TEST_F(window, lost_peer_fails_the_oldest_request_even_if_a_later_one_failed) {
  post_one(opcode::send, 0);
  path.next = {.outcome = verdict::peer_gone, .why = {.why = reason::peer_gone}};
  post_one(opcode::send, 1);
  EXPECT_EQ(completed(), ids{});
  const access_epoch::guard inside(home->epoch());
  const std::lock_guard lock(a.qp->send_lock());
  a.qp->sender().process_lost(slot_of_number(0x123456),
                              {.why = reason::peer_gone, .detail = 0x123456});
  a.qp->sender().run();
  const auto done = drain(*a.sent);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, completion_status::retry_exceeded);
  EXPECT_EQ(done[1].status, completion_status::flushed);
}

// parity: semantics-71
TEST_F(window, sq_drained_is_raised_after_the_last_answer) {
  post_one(opcode::send, 0);
  a.qp->modify({.state = queue_pair_state::sqd, .sqd_notify = true},
               attribute::state | attribute::sqd_notify)
      .value();
  post_one(opcode::send, 1);
  EXPECT_EQ(events_of(queue_pair_event::send_queue_drained), 0U);
  EXPECT_TRUE(answer(0));
  EXPECT_EQ(events_of(queue_pair_event::send_queue_drained), 1U);
  EXPECT_EQ(path.submitted.size(), 1U);
}

// parity: semantics-71
TEST_F(window, sqd_completes_a_partially_sent_request_before_sq_drained) {
  std::size_t drained = 0;
  for (const transport kind : {transport::rc, transport::uc}) {
    end_point& sender = make({.transport = kind});
    connect(*sender.qp, connection_to(0x123456));
    path.next = {.outcome = verdict::partial};
    for (const std::uint64_t id : {1, 2})
      ASSERT_EQ(post(*sender.qp, {.wr_id = id, .flags = signaled}, {memory.slice(0, 8)}), 0);
    sender.qp
        ->modify({.state = queue_pair_state::sqd, .sqd_notify = true},
                 attribute::state | attribute::sqd_notify)
        .value();
    EXPECT_EQ(events_of(queue_pair_event::send_queue_drained), drained);
    path.next = {.outcome = verdict::done};
    home->ring(*sender.qp);
    home->progress();
    EXPECT_EQ(only(*sender.sent).wr_id, 1U);
    EXPECT_EQ(events_of(queue_pair_event::send_queue_drained), ++drained);
  }
}

// parity: semantics-83
TEST_F(window, state_change_waits_for_other_processes) {
  const int before = path.fences;
  to_error(*a.qp);
  EXPECT_EQ(path.fences, before + 1);
}

TEST_F(window, unacknowledged_message_waits_up_to_a_second_for_room) {
  end_point& sender = make({.transport = transport::uc});
  connect(*sender.qp, connection_to(0x123456));
  const auto post_ids = [&](std::uint64_t id) {
    ASSERT_EQ(post(*sender.qp, {.wr_id = id, .flags = signaled}, {memory.slice(0, 8)}), 0);
  };
  path.next = {.outcome = verdict::partial};
  post_ids(1);
  post_ids(2);
  run_for(999'000'000);
  EXPECT_TRUE(sender.sent->empty());
  // The path accepts the message, which completes without an answer.
  path.next = {};
  run_for(2'000'000);
  EXPECT_EQ(drain(*sender.sent).size(), 2U);
  EXPECT_EQ(sender.qp->diagnosis().drops.count(), 0U);
  path.next = {.outcome = verdict::blocked};
  post_ids(3);
  post_ids(4);
  run_for(1'500'000'000);
  EXPECT_EQ(only(*sender.sent).wr_id, 3U);
  run_for(1'000'000'000);
  EXPECT_EQ(only(*sender.sent).status, completion_status::success);
  EXPECT_EQ(sender.qp->diagnosis().drops.count(reason::path_full), 2U);
  path.next = {.outcome = verdict::peer_gone, .why = {.why = reason::peer_gone}};
  post_ids(5);
  EXPECT_EQ(only(*sender.sent).status, completion_status::success);
  EXPECT_EQ(sender.qp->diagnosis().drops.count(reason::peer_gone), 1U);
}

}  // namespace
}  // namespace verbena::softdev::testing
