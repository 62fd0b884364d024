// SPDX-License-Identifier: MIT
#include "verbena/verbs/extended_completion_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "tests/unit/verbs/loopback.hpp"
#include "verbena/base/log.hpp"

namespace verbena {
namespace {

class lazy : public ::testing::Test {
 protected:
  lazy() {
    auto prepared = pd.create_queue_pair<rc>(cq, cq, {.access = access::remote_write}).value();
    const auto self = prepared.endpoint();
    queues.push_back(std::move(prepared).handshake(self).value());
  }
  queue_pair<rc>& queue() { return queues.front(); }

  // Passes over the queue until `count` completions were seen by `visit`.
  template <class Visit>
  void drain(std::size_t count, Visit&& visit) {
    const auto limit = deadline::after(std::chrono::seconds(20));
    std::size_t seen = 0;
    while (seen < count && !limit.expired()) {
      auto pass = cq.poll();
      for (const auto& done : pass) {
        visit(done);
        ++seen;
      }
      pass.result().value();
    }
    EXPECT_EQ(seen, count);
  }

  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  extended_completion_queue cq = device.create_extended_cq(32).value();
  memory_region memory = pd.allocate(4096, access::local_write | access::remote_write).value();
  std::vector<queue_pair<rc>> queues;
};

TEST_F(lazy, an_empty_queue_is_an_empty_pass) {
  auto pass = cq.poll();
  EXPECT_TRUE(pass.empty());
  for (const auto& done : pass) ADD_FAILURE() << done.id();
  EXPECT_TRUE(pass.result());
}

TEST_F(lazy, reads_the_fields_of_each_completion) {
  queue().post_receive({.id = 1}, memory.slice(2048, 100)).value();
  auto batch = queue().start_send();
  batch.send_with_immediate({.id = 2, .signaled = true}, 0x01020304, memory.slice(0, 77));
  batch.submit().value();
  int receives = 0;
  drain(2, [&](const lazy_completion& done) {
    done.result().value();
    EXPECT_EQ(done.status(), completion_status::success);
    EXPECT_EQ(done.queue_pair(), queue().number());
    if (!done.is_receive()) {
      EXPECT_EQ(done.id(), 2U);
      EXPECT_EQ(done.opcode(), completion_opcode::send);
      return;
    }
    ++receives;
    EXPECT_EQ(done.id(), 1U);
    EXPECT_EQ(done.opcode(), completion_opcode::receive);
    EXPECT_EQ(done.byte_length(), 77U);
    EXPECT_TRUE(done.flags().contains(completion_flag::with_immediate));
    EXPECT_EQ(done.immediate(), 0x01020304U);
  });
  EXPECT_EQ(receives, 1);
}

TEST_F(lazy, a_pass_that_is_left_early_continues_with_the_next) {
  auto batch = queue().start_send();
  for (std::uint64_t id = 0; id < 4; ++id)
    batch.write({.id = id, .signaled = true}, memory.slice(0, 8), memory.remote());
  batch.submit().value();
  const auto limit = deadline::after(std::chrono::seconds(20));
  std::uint64_t next = 0;
  while (next < 4 && !limit.expired())
    for (const auto& done : cq.poll()) {
      EXPECT_EQ(done.id(), next++);
      break;
    }
  EXPECT_EQ(next, 4U);
}

TEST_F(lazy, batches_can_be_polled_too) {
  auto batch = queue().start_send();
  batch.write({.id = 11, .signaled = true}, memory.slice(0, 8), memory.remote());
  batch.submit().value();
  EXPECT_EQ(test::take(cq, 1).at(0).id(), 11U);
}

TEST_F(lazy, a_failure_is_a_completion_with_its_reason) {
  const remote_region nowhere({.address = 8, .length = 8, .key = remote_key(1)});
  auto batch = queue().start_send();
  batch.write({.id = 3, .signaled = true}, memory.slice(0, 8), nowhere);
  batch.submit().value();
  drain(1, [&](const lazy_completion& done) {
    EXPECT_FALSE(done.ok());
    EXPECT_EQ(done.immediate(), std::nullopt);
    const auto outcome = done.result();
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code(), IBV_WC_REM_ACCESS_ERR);
  });
}

TEST_F(lazy, fields_are_printed_and_remembered) {
  EXPECT_EQ(to_string(cq.fields()), "BYTE_LEN | IMM | QP_NUM");
  EXPECT_EQ(to_string(completion_fields()), "none");
  EXPECT_EQ(cq.native_extended(), reinterpret_cast<ibv_cq_ex*>(cq.native()));
}

TEST_F(lazy, close_destroys_or_hands_back) {
  auto other = device.create_extended_cq(4).value();
  EXPECT_TRUE(std::move(other).close());
  auto refused = std::move(cq).close();
  ASSERT_FALSE(refused);
  cq = std::move(refused).object();
  EXPECT_TRUE(cq.poll().empty());
}

TEST_F(lazy, adopts_what_the_c_api_made) {
  ibv_cq_init_attr_ex asked{};
  asked.cqe = 4;
  asked.wc_flags = IBV_WC_EX_WITH_BYTE_LEN;
  ibv_cq_ex* const native = device.provider().verbs.create_cq_ex(device.native(), &asked);
  ASSERT_NE(native, nullptr);
  auto taken = extended_completion_queue::adopt(native, device, ownership::take,
                                                completion_field::byte_length);
  EXPECT_TRUE(taken.poll().empty());
  EXPECT_TRUE(std::move(taken).close());
}

using lazy_death = lazy;

TEST_F(lazy_death, fields_that_were_not_asked_for_are_not_read) {
  const auto bare = device.create_extended_cq(4, {.fields = {}}).value();
  const lazy_completion any(bare.native_extended());
  const std::string rule = "a completion queue is read only for fields it was created with: ";
  EXPECT_DEATH(static_cast<void>(any.byte_length()), rule + "BYTE_LEN was not among them");
  EXPECT_DEATH(static_cast<void>(any.queue_pair()), rule + "QP_NUM was not among them");
  EXPECT_DEATH(static_cast<void>(any.source_queue_pair()), rule + "SRC_QP");
  EXPECT_DEATH(static_cast<void>(any.source_lid()), rule + "SLID");
  EXPECT_DEATH(static_cast<void>(any.service_level()), rule + "SL was");
  EXPECT_DEATH(static_cast<void>(any.destination_path_bits()), rule + "DLID_PATH_BITS");
  EXPECT_DEATH(static_cast<void>(any.timestamp()), rule + "COMPLETION_TIMESTAMP was");
  EXPECT_DEATH(static_cast<void>(any.wall_clock_ns()), rule + "COMPLETION_TIMESTAMP_WALLCLOCK");
  EXPECT_DEATH(static_cast<void>(any.vlan()), rule + "CVLAN");
  EXPECT_DEATH(static_cast<void>(any.flow_tag()), rule + "FLOW_TAG");
}

// A queue of the C API that fails after some completions, and counts how it is called.
struct scripted_queue {
  ibv_cq_ex native{};
  int completions = 0;
  int start_code = 0;
  int end_code = ENOENT;
  int ends = 0;

  scripted_queue() {
    native.start_poll = [](ibv_cq_ex* queue, ibv_poll_cq_attr*) {
      auto& self = of(queue);
      if (self.start_code != 0) return self.start_code;
      return self.completions > 0 ? 0 : self.end_code;
    };
    native.next_poll = [](ibv_cq_ex* queue) {
      auto& self = of(queue);
      return --self.completions > 0 ? 0 : self.end_code;
    };
    native.end_poll = [](ibv_cq_ex* queue) { ++of(queue).ends; };
  }
  static scripted_queue& of(ibv_cq_ex* queue) { return *reinterpret_cast<scripted_queue*>(queue); }
};

TEST(lazy_poll, ends_what_it_started_and_nothing_else) {
  scripted_queue queue;
  {
    const lazy_poll empty(&queue.native);
  }
  EXPECT_EQ(queue.ends, 0);
  queue.completions = 3;
  int seen = 0;
  {
    lazy_poll pass(&queue.native);
    for ([[maybe_unused]] const auto& done : pass) ++seen;
    EXPECT_TRUE(pass.result());
  }
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(queue.ends, 1);
}

#ifdef VERBENA_CHECKED
TEST(lazy_poll_death, a_second_pass_needs_the_end_of_the_first) {
  scripted_queue queue;
  queue.completions = 3;
  {
    const lazy_poll pass(&queue.native);
    EXPECT_DEATH(
        const lazy_poll again(&queue.native),
        "one open pass over a queue at a time .*; the earlier place is .*_queue_test.cpp:");
  }
  const lazy_poll next(&queue.native);
  EXPECT_FALSE(next.empty());
}

TEST_F(lazy_death, a_thread_polls_nothing_else_during_a_pass) {
  queue().post_receive({.id = 1}, memory.slice(2048, 100)).value();
  auto batch = queue().start_send();
  batch.send({.id = 2, .signaled = true}, memory.slice(0, 77));
  batch.submit().value();
  std::array<completion, 1> out;
  const auto limit = deadline::after(std::chrono::seconds(20));
  while (!limit.expired()) {
    const auto pass = cq.poll();
    if (pass.empty()) continue;
    EXPECT_DEATH(static_cast<void>(cq.poll(out)),
                 "polls nothing else from it .*; the earlier place is .*_queue_test.cpp:");
    return;
  }
  FAIL() << "nothing completed";
}
#endif

TEST(lazy_poll, a_failure_in_the_middle_is_an_error) {
  scripted_queue queue;
  queue.completions = 2;
  queue.end_code = EIO;
  int seen = 0;
  {
    lazy_poll pass(&queue.native);
    for ([[maybe_unused]] const auto& done : pass) ++seen;
    const auto outcome = pass.result();
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code(), EIO);
  }
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(queue.ends, 1);
}

TEST(lazy_poll, a_failure_that_nobody_asks_for_is_logged) {
  static std::string logged;
  logged.clear();
  set_log_hook([](log_level, std::string_view line, void*) { logged += line; });
  scripted_queue queue;
  queue.start_code = EIO;
  {
    const lazy_poll pass(&queue.native);
  }
  set_log_hook(nullptr);
  EXPECT_EQ(queue.ends, 0);
  EXPECT_NE(logged.find("overflowed"), std::string::npos) << logged;
}

}  // namespace
}  // namespace verbena
