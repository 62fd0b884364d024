// SPDX-License-Identifier: MIT
// soft0 with the identity and the defects of rxe's provider in rdma-core 44.
#include "src/verbs/rxe_defects.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"

namespace verbena {
namespace {

using testing_support::log_catcher;
using testing_support::open_soft;

// The provider of soft0, with defects.
struct defective_provider {
  static inline sys::verbs_table real;
  static inline ibv_cq_ex polls{};   // functions of soft0
  static inline ibv_qp_ex lists{};   // functions of soft0
  static inline bool ended = false;  // ibv_next_poll has ended the poll
  static inline int skipped = 0;     // completions that the next poll skips

  defective_provider() {
    real = changed.verbs;
    ended = false;
    skipped = 0;
    changed.verbs.query_device.set([](ibv_context* context, ibv_device_attr* out) {
      const int failed = real.query_device(context, out);
      out->vendor_id = 0xffffff;
      out->vendor_part_id = 0;
      return failed;
    });
    changed.verbs.create_cq_ex.set([](ibv_context* context, ibv_cq_init_attr_ex* asked) {
      ibv_cq_ex* const made = real.create_cq_ex(context, asked);
      polls = *made;
      made->start_poll = &start_poll;
      made->next_poll = &next_poll;
      made->end_poll = &end_poll;
      return made;
    });
    changed.verbs.create_qp_ex.set([](ibv_context* context, ibv_qp_init_attr_ex* asked) {
      ibv_qp* const made = real.create_qp_ex(context, asked);
      ibv_qp_ex* const extended = real.qp_to_qp_ex(made);
      lists = *extended;
      extended->wr_set_sge_list = &set_sge_list;
      extended->wr_set_inline_data_list = [](ibv_qp_ex*, std::size_t, const ibv_data_buf*) {};
      return made;
    });
  }

  static int start_poll(ibv_cq_ex* queue, ibv_poll_cq_attr* attributes) {
    for (; skipped > 0; --skipped) {
      if (const int code = polls.start_poll(queue, attributes); code != 0) return code;
      polls.end_poll(queue);
    }
    return polls.start_poll(queue, attributes);
  }
  static int next_poll(ibv_cq_ex* queue) {
    const int code = polls.next_poll(queue);
    if (code == 0) return 0;
    polls.end_poll(queue);
    ended = true;
    return code;
  }
  static void end_poll(ibv_cq_ex* queue) {
    if (std::exchange(ended, false))
      ++skipped;
    else
      polls.end_poll(queue);
  }
  static void set_sge_list(ibv_qp_ex* queue, std::size_t count, const ibv_sge* list) {
    // soft0 refuses such a count as rxe does: with an error of ibv_wr_complete().
    if (count > 16) {
      lists.wr_set_sge_list(queue, count, list);
      return;
    }
    std::vector<ibv_sge> wrong(list, list + count);
    for (ibv_sge& each : wrong) each.length = list->length;
    lists.wr_set_sge_list(queue, wrong.size(), wrong.data());
  }

  provider changed = *soft_provider().value();
};

class rxe_defects : public ::testing::Test {
 protected:
  rxe_defects() {
    auto prepared = pd.create_qp<rc>(cq, cq, test::loopback::default_options()).value();
    const auto self = prepared.endpoint();
    queues.push_back(std::move(prepared).handshake(self).value());
  }
  queue_pair<rc>& qp() { return queues.front(); }
  auto extended() { return qp().extended().value(); }

  // Polls lazily until `count` completions have arrived; returns their ids.
  std::vector<std::uint64_t> drain(std::size_t count) const {
    std::vector<std::uint64_t> ids;
    const auto limit = deadline::after(std::chrono::seconds(2));
    while (ids.size() < count && !limit.expired())
      for (const auto& done : cq.poll()) {
        EXPECT_TRUE(done.ok());
        ids.push_back(done.id());
      }
    return ids;
  }

  defective_provider defective;
  context device = open_soft(defective.changed).value();
  protection_domain pd = device.allocate_pd().value();
  extended_completion_queue cq = device.create_extended_cq(32).value();
  memory_region memory = pd.allocate(4096, access::local_write | access::remote_write).value();
  std::vector<queue_pair<rc>> queues;
};

TEST_F(rxe_defects, no_completion_is_lost_over_many_polls) {
  for (std::uint64_t round = 0; round < 20; ++round) {
    std::vector<std::uint64_t> expected;
    auto batch = qp().start_send();
    for (std::uint64_t id = round * 3; id < round * 3 + 3; ++id) {
      batch.write({.id = id, .signaled = true}, memory.slice(0, 8), memory.remote());
      expected.push_back(id);
    }
    batch.submit().value();
    ASSERT_EQ(drain(3), expected);
  }
}

TEST_F(rxe_defects, poll_of_another_queue_within_a_poll_loses_no_completion) {
  const auto other = device.create_extended_cq(16).value();
  qp().post_write({.id = 1, .signaled = true}, memory.slice(0, 8), memory.remote()).value();
  std::size_t seen = 0;
  const auto limit = deadline::after(std::chrono::seconds(20));
  while (seen == 0 && !limit.expired()) {
    auto pass = cq.poll();
    for (const auto& done : pass) seen += done.id();
    for (const auto& done : other.poll()) ADD_FAILURE() << done.id();
  }
  EXPECT_EQ(seen, 1U);
  qp().post_write({.id = 3, .signaled = true}, memory.slice(0, 8), memory.remote()).value();
  EXPECT_EQ(drain(1), std::vector<std::uint64_t>{3});
}

TEST_F(rxe_defects, lazy_poll_after_an_early_exit_continues) {
  auto batch = qp().start_send();
  for (std::uint64_t id = 0; id < 4; ++id)
    batch.write({.id = id, .signaled = true}, memory.slice(0, 8), memory.remote());
  batch.submit().value();
  std::uint64_t next = 0;
  const auto limit = deadline::after(std::chrono::seconds(20));
  while (next < 4 && !limit.expired())
    for (const auto& done : cq.poll()) {
      EXPECT_EQ(done.id(), next++);
      break;
    }
  EXPECT_EQ(next, 4U);
}

TEST_F(rxe_defects, with_poster_uses_the_classic_interface) {
  EXPECT_TRUE(qp().is_extended());
  const std::array parts = {memory.slice(0, 10), memory.slice(100, 70)};
  test::fill(memory.bytes().first(200), 9);
  qp().with_poster([&](auto& poster) {
    auto batch = poster.start_send();
    batch.write({.id = 5, .signaled = true}, parts, memory.remote().slice(2048, 80));
    batch.submit().value();
  });
  EXPECT_EQ(drain(1), std::vector<std::uint64_t>{5});
  EXPECT_TRUE(std::ranges::equal(memory.bytes().subspan(2048, 10), memory.bytes().first(10)));
  EXPECT_TRUE(
      std::ranges::equal(memory.bytes().subspan(2058, 70), memory.bytes().subspan(100, 70)));
}

TEST_F(rxe_defects, extended_list_of_different_lengths_is_refused_with_the_cause) {
  const log_catcher log;
  const std::array parts = {memory.slice(0, 10), memory.slice(100, 70)};
  auto poster = extended();
  auto batch = poster.start_send();
  batch.write({.id = 5, .signaled = true}, parts, memory.remote().slice(2048, 80));
  const post_status refused = batch.submit();
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(log.contains("wrong length for a list of slices")) << log.text();
}

TEST_F(rxe_defects, description_of_enospc_names_a_full_queue_and_refused_lists) {
  const post_status refused(
      refused_post{.code = ENOSPC, .verb = posting_verb::wr_complete, .queue_pair = 1});
  const std::string message = qp().describe_refused_send(refused).message();
  EXPECT_NE(message.find("send queue"), std::string::npos) << message;
  EXPECT_NE(message.find("a list of slices with different lengths"), std::string::npos) << message;
}

TEST_F(rxe_defects, extended_list_of_equal_lengths_is_sent) {
  const std::array parts = {memory.slice(0, 40), memory.slice(100, 40)};
  test::fill(memory.bytes().first(200), 10);
  auto poster = extended();
  auto batch = poster.start_send();
  batch.write({.id = 6, .signaled = true}, parts, memory.remote().slice(2048, 80));
  batch.submit().value();
  EXPECT_EQ(drain(1), std::vector<std::uint64_t>{6});
  EXPECT_TRUE(
      std::ranges::equal(memory.bytes().subspan(2088, 40), memory.bytes().subspan(100, 40)));
}

TEST_F(rxe_defects, extended_inline_list_is_gathered) {
  test::fill(memory.bytes().first(64), 11);
  const auto source = memory.bytes();
  const std::array pieces = {inline_data(source.first(5)), inline_data(source.subspan(32, 20))};
  auto poster = extended();
  auto batch = poster.start_send();
  batch.write({.id = 7, .signaled = true}, pieces, memory.remote().slice(2048, 25));
  batch.submit().value();
  EXPECT_EQ(drain(1), std::vector<std::uint64_t>{7});
  EXPECT_TRUE(std::ranges::equal(source.subspan(2048, 5), source.first(5)));
  EXPECT_TRUE(std::ranges::equal(source.subspan(2053, 20), source.subspan(32, 20)));
}

TEST_F(rxe_defects, adopted_queues_are_corrected_if_they_are_taken) {
  ibv_cq_init_attr_ex asked{};
  asked.cqe = 16;
  asked.wc_flags = IBV_WC_EX_WITH_QP_NUM;
  const auto& verbs = defective.changed.verbs;
  ibv_cq_ex* const native = verbs.create_cq_ex(device.native(), &asked);
  ASSERT_NE(native, nullptr);
  const auto taken = extended_completion_queue::adopt(native, device, ownership::take,
                                                      completion_field::queue_pair);
  EXPECT_NE(native->end_poll, &defective_provider::end_poll);
}

}  // namespace
}  // namespace verbena
