// SPDX-License-Identifier: MIT
// Requests in progress when a queue pair stops to receive, when a region is frozen or its pages are
// replaced, and when a fault is injected.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "softdev/peers/slot_claim.hpp"
#include "tests/unit/softdev/fabric/device_pair.hpp"

namespace verbena::softdev::testing {
namespace {

/// How a queue pair stops to receive.
enum class stopped_by : std::uint8_t { error, reset, destroy };

/// A long request that the responder has begun when its queue pair stops to receive.
class interrupted_requests : public ::testing::TestWithParam<stopped_by> {
 protected:
  interrupted_requests() { pair.connect_ends(); }
  void begin(const send_request& request) {
    ASSERT_EQ(post_receive(*pair.b->qp, 1, {right.slice(0, size)}), 0);
    ASSERT_EQ(post(*pair.a->qp, request, {left.slice(0, size)}), 0);
    ASSERT_TRUE(pair.until([&] { return pair.b->qp->receiver().busy(); }));
  }
  void stop_receiving() {
    switch (GetParam()) {
      case stopped_by::error:
        return to_error(*pair.b->qp);
      case stopped_by::reset:
        return pair.b->qp->modify({.state = queue_pair_state::reset}, attribute::state).value();
      case stopped_by::destroy:
        pair.right.core->destroy(pair.b->qp);
        std::erase_if(pair.right.ends, [&](const auto& each) { return each.get() == pair.b; });
    }
  }
  completion_status first_status() {
    EXPECT_TRUE(pair.until([&] {
      virtual_now += 1'000'000;
      return !pair.a->sent->empty();
    }));
    return drain(*pair.a->sent).at(0).status;
  }

  static constexpr std::size_t size = 65'536;
  device_pair pair{{.route = route_policy::ring, .ring_bytes = min_ring_bytes}};
  shared_buffer left{pair.left, memory_kind::ordinary, size, 1};
  shared_buffer right{pair.right, memory_kind::ordinary, size, 2};
};

TEST_P(interrupted_requests, send_that_was_not_delivered_does_not_succeed_with_a_later_one) {
  begin({.wr_id = 1, .flags = signaled});
  stop_receiving();
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 2, .flags = signaled}, {left.slice(0, 8)}), 0);
  EXPECT_EQ(first_status(), completion_status::retry_exceeded);
}

TEST_P(interrupted_requests, send_that_was_not_delivered_ends_after_its_timeout) {
  begin({.wr_id = 1, .flags = signaled});
  stop_receiving();
  EXPECT_EQ(first_status(), completion_status::retry_exceeded);
}

TEST_P(interrupted_requests, write_that_was_not_delivered_ends_after_its_timeout) {
  begin({.wr_id = 1,
         .opcode = opcode::rdma_write,
         .flags = signaled,
         .remote_address = right.address(),
         .remote_key = right.key()});
  stop_receiving();
  EXPECT_EQ(first_status(), completion_status::retry_exceeded);
}

TEST_P(interrupted_requests, read_that_was_answered_in_part_ends_after_its_timeout) {
  begin({.wr_id = 1,
         .opcode = opcode::rdma_read,
         .flags = signaled,
         .remote_address = right.address(),
         .remote_key = right.key()});
  stop_receiving();
  EXPECT_EQ(first_status(), completion_status::retry_exceeded);
}

std::string name_of(const ::testing::TestParamInfo<stopped_by>& chosen) {
  if (chosen.param == stopped_by::destroy) return "destroy";
  return chosen.param == stopped_by::reset ? "reset" : "error";
}
INSTANTIATE_TEST_SUITE_P(by, interrupted_requests,
                         ::testing::Values(stopped_by::error, stopped_by::reset,
                                           stopped_by::destroy),
                         name_of);

/// Atomics in mapped memory while the owner changes the entry of the region.
struct mapped_atomics : ::testing::Test {
  static constexpr int count = 5000;
  device_pair pair;
  shared_buffer sink{pair.left, memory_kind::ordinary, 64, 1};
  shared_buffer target{pair.right, memory_kind::shareable, 4096, 2};

  void warm() {
    pair.connect_ends();
    while (pair.left.path->counters().mapped == 0) ASSERT_EQ(add(0), completion_status::success);
    target.set_word(0, 0);
  }
  completion_status add(std::uint64_t addend) {
    EXPECT_EQ(post(*pair.a->qp,
                   {.opcode = opcode::fetch_add,
                    .flags = signaled,
                    .remote_address = target.address(),
                    .remote_key = target.key(),
                    .compare_or_add = addend},
                   {sink.slice(0, 8)}),
              0);
    const auto done = drain(*pair.a->sent);
    return done.empty() ? pair.wait_for(*pair.a->sent, 1).at(0).status : done.at(0).status;
  }
  /// Calls `body` in another thread until the destructor.
  class repeated {
   public:
    explicit repeated(const std::function<void()>& body)
        : thread_([this, body] {
            while (!stop_) body();
          }) {}
    ~repeated() {
      stop_ = true;
      thread_.join();
    }

   private:
    std::atomic<bool> stop_{false};
    std::thread thread_;
  };
};

TEST_F(mapped_atomics, are_executed_once_while_the_region_is_frozen_and_thawed) {
  warm();
  public_segment& owner = pair.right.peer_link->segment();
  {
    const repeated changes([&] {
      owner.freeze_regions(target.address(), 4096);
      owner.thaw_regions(target.address(), 4096);
    });
    for (int i = 0; i < count; ++i) ASSERT_EQ(add(1), completion_status::success);
  }
  EXPECT_EQ(target.word(0), std::uint64_t{count});
}

// As if this process had been stopped for a while: the owner replaces the pages without waiting.
TEST_F(mapped_atomics, fail_if_the_pages_are_replaced_meanwhile) {
  warm();
  public_segment& owner = pair.right.peer_link->segment();
  const auto place = pair.right.peer_link->arenas().acquire(target.data(), 4096).value();
  pair.right.peer_link->arenas().release(target.data());
  std::uint64_t done = 0;
  completion_status last = completion_status::success;
  {
    const repeated changes([&] {
      owner.freeze_regions(target.address(), 4096);
      owner.outdate_regions(target.address(), 4096);
      owner.rebind_regions(target.address(), 4096, place.arena, target.address() - place.offset);
    });
    for (int i = 0; i < count && last == completion_status::success; ++i) {
      last = add(1);
      if (last == completion_status::success) ++done;
    }
  }
  EXPECT_GE(target.word(0), done);
  EXPECT_LE(target.word(0), done + (last == completion_status::success ? 0 : 1));
}

struct delayed_requests : ::testing::Test {
  device_pair pair;
  shared_buffer source{pair.left, memory_kind::ordinary, 64, 1};
  shared_buffer target{pair.right, memory_kind::ordinary, 64, 2};
};

TEST_F(delayed_requests, do_not_hide_the_answer_to_the_next_one) {
  pair.connect_ends();
  const send_request write{.wr_id = 1,
                           .opcode = opcode::rdma_write,
                           .flags = signaled,
                           .remote_address = target.address(),
                           .remote_key = target.key()};
  ASSERT_EQ(post(*pair.a->qp, write, {source.slice(0, 8)}), 0);
  ASSERT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
  pair.settle();
  constexpr time_ns delay = 1'000'000;
  pair.left.core->add_fault({.effect = fault_effect::delay, .delay = delay, .at = 1, .count = 1});
  ASSERT_EQ(post_receive(*pair.b->qp, 7, {target.slice(32, 8)}), 0);
  const auto before = pair.left.path->counters();
  ASSERT_EQ(post(*pair.a->qp, write, {source.slice(0, 8)}), 0);
  EXPECT_EQ(pair.left.path->counters().by_ring, before.by_ring) << "it is executed directly";
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 2, .flags = signaled}, {source.slice(8, 8)}), 0);
  pair.settle();
  EXPECT_TRUE(pair.a->sent->empty());
  pair.pass_time(delay);
  const auto done = pair.wait_for(*pair.a->sent, 2);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].wr_id, 1U);
  EXPECT_EQ(done[1].wr_id, 2U);
  EXPECT_EQ(done[1].status, completion_status::success);
}

TEST_F(delayed_requests, injected_error_of_a_delivered_request_survives_a_retry) {
  pair.connect_ends();
  pair.left.core->add_fault({.effect = fault_effect::error,
                             .status = completion_status::remote_operation_error,
                             .delivered = true});
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 1, .flags = signaled}, {source.slice(0, 8)}), 0);
  pair.settle();
  EXPECT_TRUE(pair.a->sent->empty()) << "no receive request is posted";
  ASSERT_EQ(post_receive(*pair.b->qp, 7, {target.slice(0, 8)}), 0);
  pair.pass_time(640'000);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status,
            completion_status::remote_operation_error);
}

}  // namespace
}  // namespace verbena::softdev::testing
