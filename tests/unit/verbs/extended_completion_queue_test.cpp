// SPDX-License-Identifier: MIT
#include "verbena/verbs/extended_completion_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/log.hpp"

namespace verbena {
namespace {

class lazy : public ::testing::Test {
 protected:
  lazy() {
    auto prepared = pd.create_qp<rc>(cq, cq, {.access = access::remote_write}).value();
    const auto self = prepared.endpoint();
    queues.push_back(std::move(prepared).handshake(self).value());
  }
  queue_pair<rc>& qp() { return queues.front(); }

  // Polls the queue until `visit` was called for `count` completions.
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

TEST_F(lazy, poll_of_empty_queue_is_an_empty_pass) {
  auto pass = cq.poll();
  EXPECT_TRUE(pass.empty());
  for (const auto& done : pass) ADD_FAILURE() << done.id();
  EXPECT_TRUE(pass.result());
}

// parity: ibverbs-95
TEST_F(lazy, reads_the_fields_of_each_completion) {
  qp().post_receive({.id = 1}, memory.slice(2048, 100)).value();
  auto batch = qp().start_send();
  batch.send_with_immediate({.id = 2, .signaled = true}, 0x01020304, memory.slice(0, 77));
  batch.submit().value();
  int receives = 0;
  drain(2, [&](const lazy_completion& done) {
    done.result().value();
    EXPECT_EQ(done.status(), completion_status::success);
    EXPECT_EQ(done.queue_pair(), qp().number());
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

// parity: ibverbs-105
TEST_F(lazy, next_pass_continues_after_an_early_exit) {
  auto batch = qp().start_send();
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

TEST_F(lazy, poll_into_an_array_takes_completions) {
  auto batch = qp().start_send();
  batch.write({.id = 11, .signaled = true}, memory.slice(0, 8), memory.remote());
  batch.submit().value();
  EXPECT_EQ(test::take(cq, 1).at(0).id(), 11U);
}

// poll() into an array and lazy_poll return equal completions.
// parity: ibverbs-117, ibverbs-tests-78
TEST_F(lazy, lazy_and_array_polls_return_equal_completions) {
  const remote_region nowhere({.address = 8, .length = 8, .key = remote_key(1)});
  struct seen {
    std::uint64_t id;
    completion_status status;
    completion_opcode opcode;
    std::uint32_t bytes;
    std::optional<std::uint32_t> immediate;
    std::uint32_t vendor;
    bool operator==(const seen&) const = default;
  };
  const auto note = [](const auto& done) {
    const bool ok = done.ok();
    return seen{done.id(),
                done.status(),
                ok ? done.opcode() : completion_opcode(),
                ok && done.is_receive() ? done.byte_length() : 0,
                done.immediate(),
                ok ? 0 : done.vendor_error()};
  };
  const auto post = [&](queue_pair<rc>& to) {
    to.post_receive({.id = 1}, memory.slice(2048, 100)).value();
    auto batch = to.start_send();
    batch.send_with_immediate({.id = 2, .signaled = true}, 7, memory.slice(0, 77));
    batch.write({.id = 3, .signaled = true}, memory.slice(0, 8), nowhere);
    batch.write({.id = 4, .signaled = true}, memory.slice(0, 8), memory.remote());
    batch.submit().value();
  };
  const auto by_id = [](const seen& a, const seen& b) { return a.id < b.id; };
  std::vector<seen> in_batches;
  post(qp());
  for (const auto& done : test::take(cq, 4)) in_batches.push_back(note(done));
  auto prepared = pd.create_qp<rc>(cq, cq, {.access = access::remote_write}).value();
  const auto self = prepared.endpoint();
  auto second = std::move(prepared).handshake(self).value();
  std::vector<seen> lazily;
  post(second);
  drain(4, [&](const lazy_completion& done) {
    EXPECT_EQ(done.native(), cq.native_extended());
    EXPECT_EQ(done.native()->wr_id, done.id());
    lazily.push_back(note(done));
  });
  std::ranges::sort(in_batches, by_id);
  std::ranges::sort(lazily, by_id);
  EXPECT_TRUE(in_batches == lazily);
  EXPECT_EQ(lazily.at(2).status, completion_status::remote_access_error);
  EXPECT_EQ(lazily.at(3).status, completion_status::flushed);
}

TEST_F(lazy, creation_passes_flags_and_its_error_names_them) {
  EXPECT_TRUE(device.create_extended_cq(4, {.single_threaded = true}));
  provider from = *soft_provider().value();
  static ibv_cq_init_attr_ex asked;
  from.verbs.create_cq_ex.set([](ibv_context*, ibv_cq_init_attr_ex* attributes) -> ibv_cq_ex* {
    asked = *attributes;
    errno = EOPNOTSUPP;
    return nullptr;
  });
  const auto opened = testing_support::open_soft(from).value();
  const auto refused =
      opened.create_extended_cq(4, {.single_threaded = true, .ignore_overrun = true});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("or the requested flags"), std::string::npos);
  EXPECT_EQ(asked.comp_mask, std::uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS});
  EXPECT_EQ(asked.flags,
            std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN});
  EXPECT_FALSE(opened.create_extended_cq(4));
  EXPECT_EQ(asked.comp_mask, 0U) << "the mask has bits that old providers do not support";
}

// soft0 carries no VLAN tags, has no flow steering and no tag matching.
TEST_F(lazy, field_that_the_device_lacks_is_refused_by_name) {
  for (const auto& [field, name] : std::array<std::pair<completion_field, const char*>, 3>{
           {{completion_field::vlan, "CVLAN"},
            {completion_field::flow_tag, "FLOW_TAG"},
            {completion_field::tag_matching, "TM_INFO"}}}) {
    const auto refused = device.create_extended_cq(8, {.fields = field});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), error_kind::not_supported);
    EXPECT_NE(refused.error().message().find(name), std::string::npos) << refused.error().message();
  }
}

// soft0 behind a provider that has VLAN tags and flow steering, as some adapters.
TEST(lazy_fields, vlan_and_flow_tag_of_a_received_message_are_read) {
  static sys::verbs_table real;
  provider steering = *soft_provider().value();
  real = steering.verbs;
  steering.verbs.create_cq_ex.set([](ibv_context* context, ibv_cq_init_attr_ex* asked) {
    ibv_cq_init_attr_ex without = *asked;
    without.wc_flags &= ~std::uint64_t{IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG};
    ibv_cq_ex* const made = real.create_cq_ex(context, &without);
    made->read_cvlan = [](ibv_cq_ex* queue) -> std::uint16_t {
      return queue->wr_id == 1 ? 100 : 0;
    };
    made->read_flow_tag = [](ibv_cq_ex* queue) -> std::uint32_t {
      return queue->wr_id == 1 ? 0xabcdef : 0;
    };
    return made;
  });
  const context device = testing_support::open_soft(steering).value();
  const auto pd = device.allocate_pd().value();
  const auto cq =
      device.create_extended_cq(8, {.fields = completion_field::vlan | completion_field::flow_tag})
          .value();
  EXPECT_EQ(cq.fields(), completion_field::vlan | completion_field::flow_tag);
  const auto memory = pd.allocate(64, access::local_write).value();
  auto prepared = pd.create_qp<rc>(cq, cq).value();
  const auto self = prepared.endpoint();
  auto queue = std::move(prepared).handshake(self).value();
  queue.post_receive({.id = 1}, memory.slice(0, 8)).value();
  queue.post_send({.id = 2}, memory.slice(8, 8)).value();
  bool arrived = false;
  for (const auto limit = deadline::after(std::chrono::seconds(20)); !arrived && !limit.expired();)
    for (const auto& done : cq.poll()) {
      arrived = true;
      EXPECT_EQ(done.id(), 1U);
      EXPECT_EQ(done.vlan(), 100);
      EXPECT_EQ(done.flow_tag(), 0xabcdefU);
    }
  EXPECT_TRUE(arrived);
}

// parity: ibverbs-114, rrddmma-58, ibverbs-98
TEST_F(lazy, times_are_on_the_device_clock_and_the_wall_clock) {
  const auto clock = device
                         .create_extended_cq(8, {.fields = completion_field::timestamp |
                                                           completion_field::wall_clock})
                         .value();
  auto prepared = pd.create_qp<rc>(clock, clock, {.access = access::remote_write}).value();
  const auto self = prepared.endpoint();
  auto timed = std::move(prepared).handshake(self).value();
  const auto before = std::chrono::system_clock::now();
  std::vector<device_clock_time> times;
  for (int i = 0; i < 2; ++i) {
    auto batch = timed.start_send();
    batch.write({.signaled = true}, memory.slice(0, 8), memory.remote());
    batch.submit().value();
    const auto limit = deadline::after(std::chrono::seconds(20));
    while (times.size() <= static_cast<std::size_t>(i) && !limit.expired())
      for (const auto& done : clock.poll()) {
        times.push_back(done.timestamp());
        EXPECT_GE(done.wall_clock(), before - std::chrono::seconds(1));
        EXPECT_LE(done.wall_clock(), std::chrono::system_clock::now() + std::chrono::seconds(1));
      }
  }
  ASSERT_EQ(times.size(), 2U);
  EXPECT_FALSE(times[1].is_before(times[0]));
  const auto attributes = device.query_extended().value();
  EXPECT_EQ(times[0].bits(),
            static_cast<unsigned>(std::bit_width(attributes.completion_timestamp_mask())));
  const auto between = attributes.duration_of(times[1] - times[0]);
  ASSERT_TRUE(between.has_value());
  EXPECT_LT(*between, std::chrono::seconds(40));
}

TEST_F(lazy, failed_request_has_a_result_with_its_reason) {
  const remote_region nowhere({.address = 8, .length = 8, .key = remote_key(1)});
  auto batch = qp().start_send();
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

template <class Queue>
concept can_be_read_lazily = requires(Queue& queue) { queue.poll(); };

// parity: ibverbs-96
TEST_F(lazy, types_of_queues_are_separate) {
  static_assert(can_be_read_lazily<extended_completion_queue>);
  static_assert(!can_be_read_lazily<completion_queue>);
  static_assert(!std::is_convertible_v<completion_queue, extended_completion_queue>);
  EXPECT_NE(cq.native_extended(), nullptr);
}

// parity: ibverbs-tests-22, ibverbs-95, ibverbs-101
TEST_F(lazy, fields_are_kept_and_printed) {
  EXPECT_EQ(to_string(cq.fields()), "BYTE_LEN | IMM | QP_NUM");
  EXPECT_EQ(to_string(completion_fields()), "none");
  EXPECT_EQ(cq.native_extended(), reinterpret_cast<ibv_cq_ex*>(cq.native()));
}

TEST_F(lazy, close_destroys_or_returns_the_queue) {
  auto other = device.create_extended_cq(4).value();
  EXPECT_TRUE(std::move(other).close());
  EXPECT_EQ(other.native_extended(), nullptr);  // NOLINT(bugprone-use-after-move,*.Move)
  auto refused = std::move(cq).close();
  ASSERT_FALSE(refused);
  cq = std::move(refused).object();
  EXPECT_TRUE(cq.poll().empty());
}

TEST_F(lazy, native_queue_can_be_adopted) {
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

// parity: ibverbs-98, ibverbs-113
TEST_F(lazy_death, read_of_unrequested_field_stops_the_program) {
  const auto bare = device.create_extended_cq(4, {.fields = {}}).value();
  const lazy_completion any(bare.native_extended());
  const std::string rule = "a completion was read for ";
  EXPECT_DEATH(static_cast<void>(any.byte_length()),
               rule + "BYTE_LEN, but its completion queue was created without");
  EXPECT_DEATH(static_cast<void>(any.queue_pair()),
               rule + "QP_NUM, but its completion queue was created without");
  EXPECT_DEATH(static_cast<void>(any.source_queue_pair()), rule + "SRC_QP");
  EXPECT_DEATH(static_cast<void>(any.source_lid()), rule + "SLID");
  EXPECT_DEATH(static_cast<void>(any.service_level()), rule + "SL, but");
  EXPECT_DEATH(static_cast<void>(any.destination_path_bits()), rule + "DLID_PATH_BITS");
  EXPECT_DEATH(static_cast<void>(any.timestamp()), rule + "COMPLETION_TIMESTAMP, but");
  EXPECT_DEATH(static_cast<void>(any.wall_clock()), rule + "COMPLETION_TIMESTAMP_WALLCLOCK");
  EXPECT_DEATH(static_cast<void>(any.vlan()), rule + "CVLAN");
  EXPECT_DEATH(static_cast<void>(any.flow_tag()), rule + "FLOW_TAG");
  EXPECT_DEATH(static_cast<void>(any.tag()), rule + "TM_INFO");
}

// A queue of the C API that fails after some completions, and counts its calls.
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

// parity: ibverbs-114, ibverbs-115, ibverbs-116
TEST(lazy_completion, reads_every_field_from_the_queue) {
  ibv_cq_ex native{};
  native.wr_id = 7;
  native.status = IBV_WC_SUCCESS;
  native.read_opcode = [](ibv_cq_ex*) { return IBV_WC_RECV; };
  native.read_wc_flags = [](ibv_cq_ex*) -> unsigned { return IBV_WC_WITH_INV; };
  native.read_imm_data = [](ibv_cq_ex*) -> __be32 { return 0x01020304; };
  native.read_src_qp = [](ibv_cq_ex*) -> std::uint32_t { return 0xff00'1a2b; };
  native.read_slid = [](ibv_cq_ex*) -> std::uint32_t { return 0x1234; };
  native.read_sl = [](ibv_cq_ex*) -> std::uint8_t { return 5; };
  native.read_dlid_path_bits = [](ibv_cq_ex*) -> std::uint8_t { return 3; };
  native.read_completion_ts = [](ibv_cq_ex*) -> std::uint64_t { return 0x1ff; };
  native.read_completion_wallclock_ns = [](ibv_cq_ex*) -> std::uint64_t { return 1'500'000'000; };
  native.read_cvlan = [](ibv_cq_ex*) -> std::uint16_t { return 12; };
  native.read_flow_tag = [](ibv_cq_ex*) -> std::uint32_t { return 13; };
  native.read_tm_info = [](ibv_cq_ex*, ibv_wc_tm_info* info) { *info = {.tag = 14, .priv = 15}; };
  const lazy_completion done(&native, 0xff);
  EXPECT_TRUE(done.is_receive());
  EXPECT_EQ(done.invalidated_key(), remote_key(0x01020304));
  EXPECT_EQ(done.immediate(), std::nullopt);
  EXPECT_EQ(done.source_queue_pair(), queue_pair_number(0x1a2b));
  EXPECT_EQ(done.source_lid(), lid(0x1234));
  EXPECT_EQ(done.service_level(), 5);
  EXPECT_EQ(done.destination_path_bits(), 3);
  EXPECT_EQ(done.timestamp(), device_clock_time({.ticks = 0xff, .mask = 0xff}));
  EXPECT_EQ(done.wall_clock().time_since_epoch(), std::chrono::milliseconds(1500));
  EXPECT_EQ(done.vlan(), 12);
  EXPECT_EQ(done.flow_tag(), 13U);
  EXPECT_EQ(done.tag(), (matched_tag{.tag = 14, .application_data = 15}));
  native.status = IBV_WC_WR_FLUSH_ERR;
  EXPECT_EQ(done.invalidated_key(), std::nullopt);
}

// parity: ibverbs-103, ibverbs-104
TEST(lazy_poll, end_poll_is_called_only_after_a_successful_start) {
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
// parity: ibverbs-107
TEST(lazy_poll_death, second_open_pass_stops_the_program) {
  scripted_queue queue;
  queue.completions = 3;
  {
    const lazy_poll pass(&queue.native);
    EXPECT_DEATH(const lazy_poll again(&queue.native),
                 "a thread began a second poll of a completion queue before it ended the first one "
                 ".*; the earlier call is at "
                 ".*_queue_test.cpp:");
  }
  const lazy_poll next(&queue.native);
  EXPECT_FALSE(next.empty());
}

// parity: ibverbs-316
TEST(lazy_poll_death, read_of_an_earlier_completion_stops_the_program) {
  scripted_queue queue;
  const std::string places =
      "a completion of an extended completion queue was read after ibv_next_poll or ibv_end_poll: "
      "copy what is needed before .*"
      "_queue_test.cpp:[0-9]+; the earlier call is at .*_queue_test.cpp:";
  const lazy_completion* kept = nullptr;
  for (const int completions : {1, 3, 300}) {
    queue.completions = completions;
    const std::string polled = places + std::to_string(__LINE__ + 1);
    lazy_poll pass(&queue.native);
    auto at = pass.begin();
    kept = &*at;
    EXPECT_EQ(kept->status(), completion_status::success);
    ++at;
    EXPECT_DEATH(static_cast<void>(kept->id()), polled);
    if (completions > 1) {
      EXPECT_EQ(at->id(), 0U);
      for (int step = 0; step < 100; ++step) ++at;
      EXPECT_DEATH(static_cast<void>(kept->byte_length()), polled);
      kept = &*at;
      EXPECT_EQ(kept->native(), &queue.native);
    }
  }
  EXPECT_DEATH(static_cast<void>(kept->ok()), places);
}

TEST_F(lazy_death, poll_during_a_pass_stops_the_program) {
  qp().post_receive({.id = 1}, memory.slice(2048, 100)).value();
  auto batch = qp().start_send();
  batch.send({.id = 2, .signaled = true}, memory.slice(0, 77));
  batch.submit().value();
  std::array<completion, 1> out;
  const auto limit = deadline::after(std::chrono::seconds(20));
  while (!limit.expired()) {
    const auto pass = cq.poll();
    if (pass.empty()) continue;
    EXPECT_DEATH(static_cast<void>(cq.poll(out)),
                 "called poll\\(\\) of a completion queue between its .*; the earlier "
                 "call is at .*_queue_test.cpp:");
    return;
  }
  FAIL() << "no request has completed";
}
#endif

// parity: ibverbs-106
TEST(lazy_poll, device_failure_during_a_pass_is_returned) {
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

// parity: ibverbs-106
TEST(lazy_poll, unread_device_failure_is_logged) {
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
