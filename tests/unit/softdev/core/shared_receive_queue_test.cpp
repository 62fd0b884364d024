// SPDX-License-Identifier: MIT
// Shared receive queues: order of consumption, limit, size, failures, threads.
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>

#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

int post_sinks(shared_receive_queue& queue, std::uint64_t wr_id, const std::vector<sge>& sinks) {
  queue.open();
  const int code = queue.add(wr_id, {sinks.data(), static_cast<std::uint32_t>(sinks.size())});
  queue.close();
  return code;
}

// Two senders, each connected to a receiver with the shared receive queue.
class srq : public fabric, shared_receive_observer {
 protected:
  srq() {
    connect_pair(a, a_peer);
    connect_pair(b, b_peer);
  }
  int send(end_point& from, std::uint64_t wr_id, std::size_t bytes = 8) {
    return testing::post(*from.qp, {.wr_id = wr_id, .opcode = opcode::send, .flags = signaled},
                         {source.slice(0, bytes)});
  }

  void limit_reached(shared_receive_queue&) override { ++reached; }

  int reached = 0;
  shared_receive_queue shared{
      {.domain = domain_id{1}, .max_wr = 4, .max_sge = 2, .observer = this}};
  end_point& a = make();
  end_point& b = make();
  end_point& a_peer = make({.shared_receives = &shared});
  end_point& b_peer = make({.shared_receives = &shared});
  buffer source{*home, 64, everything, 1};
  buffer sink{*home, 64, everything, 2};
};

// parity: semantics-91
TEST_F(srq, queue_pairs_consume_shared_receives_in_order) {
  EXPECT_EQ(post_receive(*a_peer.qp, 1, {}), EINVAL) << "the queue pair has a shared receive queue";
  for (std::uint64_t id = 1; id <= 4; ++id)
    ASSERT_EQ(post_sinks(shared, id, {sink.slice(8 * id, 3), sink.slice(8 * id + 3, 5)}), 0);
  EXPECT_EQ(post_sinks(shared, 5, {}), ENOMEM);
  EXPECT_EQ(post_sinks(shared, 5, {{}, {}, {}}), EINVAL);
  ASSERT_EQ(send(b, 10), 0);
  ASSERT_EQ(send(a, 11), 0);
  ASSERT_EQ(send(b, 12), 0);
  ASSERT_EQ(testing::post(
                *a.qp, {.wr_id = 13, .opcode = opcode::rdma_write_with_imm, .immediate = 77}, {}),
            0);
  const auto of_b = drain(*b_peer.received);
  ASSERT_EQ(of_b.size(), 2U);
  EXPECT_EQ(of_b[0].wr_id, 1U);
  EXPECT_EQ(of_b[1].wr_id, 3U);
  EXPECT_EQ(of_b[0].qp_num, b_peer.qp->number());
  EXPECT_EQ(of_b[0].byte_count, 8U);
  const auto of_a = drain(*a_peer.received);
  ASSERT_EQ(of_a.size(), 2U);
  EXPECT_EQ(of_a[0].wr_id, 2U);
  EXPECT_EQ(of_a[1].wr_id, 4U);
  EXPECT_EQ(of_a[1].immediate, 77U);
  for (std::size_t id = 1; id <= 3; ++id) EXPECT_TRUE(sink.holds(1, 8 * id, 8, 0)) << id;
  EXPECT_TRUE(sink.holds(2, 32, 8, 32));
}

TEST_F(srq, slot_is_free_after_its_receive_is_consumed) {
  for (std::uint64_t id = 1; id <= 4; ++id)
    ASSERT_EQ(post_sinks(shared, id, {sink.slice(0, 8)}), 0);
  for (std::uint64_t id = 5; id <= 20; ++id) {
    ASSERT_EQ(send(a, id), 0);
    EXPECT_EQ(post_sinks(shared, id, {sink.slice(0, 8)}), 0);
    EXPECT_EQ(post_sinks(shared, id, {sink.slice(0, 8)}), ENOMEM);
  }
  const auto received = drain(*a_peer.received);
  ASSERT_EQ(received.size(), 16U);
  for (std::size_t i = 0; i < received.size(); ++i) EXPECT_EQ(received[i].wr_id, i + 1);
}

// parity: semantics-131
TEST_F(srq, queue_pair_with_empty_shared_queue_waits_for_a_receive) {
  ASSERT_EQ(send(a, 1), 0);
  ASSERT_EQ(send(b, 2), 0);
  EXPECT_TRUE(a.sent->empty());
  ASSERT_EQ(post_sinks(shared, 7, {sink.slice(0, 8)}), 0);
  ASSERT_EQ(post_sinks(shared, 8, {sink.slice(8, 8)}), 0);
  run_for(rnr_time(12));
  EXPECT_EQ(only(*a.sent).status, completion_status::success);
  EXPECT_EQ(only(*b.sent).status, completion_status::success);
  ASSERT_EQ(send(a, 3), 0);
  run_for(4 * rnr_time(12));
  EXPECT_EQ(only(*a.sent).status, completion_status::rnr_retry_exceeded);
}

// parity: ibverbs-262, semantics-126
TEST_F(srq, limit_event_is_raised_once_per_arming) {
  for (std::uint64_t id = 1; id <= 4; ++id)
    ASSERT_EQ(post_sinks(shared, id, {sink.slice(0, 8)}), 0);
  ASSERT_EQ(shared.modify({.limit = 3}), 0);
  EXPECT_EQ(shared.query().limit, 3U);
  ASSERT_EQ(send(a, 1), 0);
  EXPECT_EQ(reached, 0) << "three receives remain, which is not below the limit of three";
  ASSERT_EQ(send(b, 2), 0);
  EXPECT_EQ(reached, 1);
  EXPECT_EQ(shared.query().limit, 0U);
  ASSERT_EQ(send(b, 3), 0);
  EXPECT_EQ(reached, 1);
  ASSERT_EQ(shared.modify({.limit = 2}), 0);
  EXPECT_EQ(reached, 1);
  ASSERT_EQ(send(a, 4), 0);
  EXPECT_EQ(reached, 2) << "the number of receives was below the limit when the event was armed";
  ASSERT_EQ(shared.modify({.limit = 1}), 0);
  ASSERT_EQ(shared.modify({.limit = 0}), 0);
  ASSERT_EQ(send(a, 5), 0);
  EXPECT_EQ(reached, 2);
}

// parity: ibverbs-263
TEST_F(srq, resize_keeps_posted_receives) {
  for (std::uint64_t id = 1; id <= 3; ++id)
    ASSERT_EQ(post_sinks(shared, id, {sink.slice(8 * id, 8)}), 0);
  ASSERT_EQ(send(a, 1), 0);
  EXPECT_EQ(shared.modify({.max_wr = 1}), EINVAL) << "the queue contains two receives";
  EXPECT_EQ(shared.modify({.max_wr = 0}), EINVAL);
  EXPECT_EQ(shared.modify({.max_wr = limits::max_work_requests + 1}), EINVAL);
  EXPECT_EQ(shared.modify({.limit = 5}), EINVAL);
  EXPECT_EQ(shared.modify({.max_wr = 2, .limit = 3}), EINVAL);
  EXPECT_EQ(shared.query().max_wr, 4U);
  EXPECT_EQ(shared.query().limit, 0U);
  ASSERT_EQ(shared.modify({.max_wr = 2, .limit = 2}), 0);
  EXPECT_EQ(post_sinks(shared, 9, {}), ENOMEM);
  ASSERT_EQ(shared.modify({.max_wr = 100}), 0);
  EXPECT_EQ(shared.query().max_wr, 100U);
  EXPECT_EQ(shared.query().max_sge, 2U);
  for (std::uint64_t id = 4; id <= 101; ++id)
    ASSERT_EQ(post_sinks(shared, id, {sink.slice(0, 8)}), 0);
  EXPECT_EQ(post_sinks(shared, 102, {}), ENOMEM);
  ASSERT_EQ(send(a, 2), 0);
  ASSERT_EQ(send(b, 3), 0);
  EXPECT_EQ(drain(*a_peer.received).back().wr_id, 2U);
  EXPECT_EQ(only(*b_peer.received).wr_id, 3U);
  EXPECT_TRUE(sink.holds(1, 16, 8, 0));
  EXPECT_TRUE(sink.holds(1, 24, 8, 0));
}

// parity: semantics-127
TEST_F(srq, failed_queue_pair_consumes_no_receives_and_raises_last_wqe_event) {
  ASSERT_EQ(post_sinks(shared, 1, {sink.slice(0, 8)}), 0);
  ASSERT_EQ(post_sinks(shared, 2, {sink.slice(8, 8)}), 0);
  // The queue pair fails after half of a message has arrived.
  {
    const std::lock_guard lock(a_peer.qp->receive_lock());
    const access_epoch::guard inside(home->epoch());
    ASSERT_EQ(a_peer.qp->receiver()
                  .begin({.source_qpn = a.qp->number(), .psn = 100, .length = 8})
                  .outcome,
              verdict::done);
  }
  to_error(*a_peer.qp);
  to_error(*a_peer.qp);
  EXPECT_EQ(events_of(queue_pair_event::last_request_reached), 1U);
  const completion flushed = only(*a_peer.received);
  EXPECT_EQ(flushed.wr_id, 1U);
  EXPECT_EQ(flushed.status, completion_status::flushed);
  ASSERT_EQ(send(b, 3), 0);
  EXPECT_EQ(only(*b_peer.received).wr_id, 2U)
      << "the remaining receives are available to other queue pairs";
  // After a reset the queue pair consumes receives and raises events again.
  a_peer.qp->modify({.state = queue_pair_state::reset}, attribute::state).value();
  a.qp->modify({.state = queue_pair_state::reset}, attribute::state).value();
  connect_pair(a, a_peer);
  ASSERT_EQ(post_sinks(shared, 4, {sink.slice(0, 4)}), 0);
  ASSERT_EQ(send(a, 5), 0);
  const completion failed = only(*a_peer.received);
  EXPECT_EQ(failed.wr_id, 4U);
  EXPECT_EQ(failed.status, completion_status::local_length_error);
  EXPECT_EQ(events_of(queue_pair_event::last_request_reached), 2U);
}

// parity: semantics-129
TEST_F(srq, buffers_are_checked_against_the_pd_of_the_shared_queue) {
  buffer foreign{*home, 8, everything, 3, domain_id{9}};
  shared_receive_queue theirs{{.domain = domain_id{9}, .max_wr = 2, .max_sge = 1}};
  end_point& c = make();
  end_point& c_peer = make({.shared_receives = &theirs});
  connect_pair(c, c_peer);
  ASSERT_EQ(post_sinks(theirs, 1, {foreign.all()}), 0);
  ASSERT_EQ(post_sinks(theirs, 2, {sink.slice(0, 8)}), 0);
  ASSERT_EQ(send(c, 3), 0);
  EXPECT_EQ(only(*c_peer.received).status, completion_status::success);
  EXPECT_TRUE(foreign.holds(1, 0, 8, 0));
  ASSERT_EQ(send(c, 4), 0);
  EXPECT_EQ(only(*c_peer.received).status, completion_status::local_protection_error);
}

// Four threads post to one shared receive queue and four threads send to its queue pairs, while the
// queue is resized and armed.
// parity: ibverbs-259
TEST_F(srq, concurrent_posts_of_eight_threads_deliver_each_receive_once) {
  constexpr std::uint32_t pairs = 4;
  constexpr std::uint32_t each = 400;
  shared_receive_queue wide{{.domain = domain_id{1}, .max_wr = 64, .max_sge = 1}};
  std::array<end_point*, pairs> senders{};
  std::array<end_point*, pairs> receivers{};
  for (std::uint32_t i = 0; i < pairs; ++i) {
    senders[i] = &make();
    receivers[i] = &make({.completions = each, .shared_receives = &wide});
    connect_pair(*senders[i], *receivers[i]);
  }
  std::atomic<std::uint32_t> here{0};  // posted receives without a sender
  std::vector<std::thread> running;
  for (std::uint32_t i = 0; i < pairs; ++i) {
    running.emplace_back([&, i] {
      for (std::uint32_t posted = 0; posted < each;) {
        if (post_sinks(wide, i * each + posted, {sink.slice(8 * i, 8)}) == 0) {
          ++posted;
          ++here;
        } else {
          std::this_thread::yield();
        }
      }
    });
    running.emplace_back([&, i] {
      for (std::uint32_t sent = 0; sent < each;) {
        std::uint32_t now = here.load();
        if (now == 0 || !here.compare_exchange_weak(now, now - 1)) {
          std::this_thread::yield();
          continue;
        }
        ASSERT_EQ(send(*senders[i], sent), 0);
        EXPECT_EQ(only(*senders[i]->sent).status, completion_status::success);
        ++sent;
      }
    });
  }
  std::vector<std::uint32_t> times(pairs * each);
  for (std::uint32_t received = 0; received < pairs * each; std::this_thread::yield()) {
    for (end_point* const end : receivers)
      for (const completion& done : drain(*end->received)) {
        ASSERT_EQ(done.status, completion_status::success);
        ++times.at(done.wr_id);
        ++received;
      }
    static_cast<void>(wide.modify({.max_wr = 32 + received % 64, .limit = 8}));
    home->progress();
  }
  for (auto& one : running) one.join();
  EXPECT_EQ(times, std::vector<std::uint32_t>(pairs * each, 1));
}

}  // namespace
}  // namespace verbena::softdev::testing
