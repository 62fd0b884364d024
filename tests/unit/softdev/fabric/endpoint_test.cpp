// SPDX-License-Identifier: MIT
// Requests between two devices: all operations on all routes, order, rejections, and back-pressure
// with small rings.
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

struct route_case {
  const char* name;
  route_policy policy;
  memory_kind memory;
  std::uint64_t fabric_endpoint_counters::* expected;
};

class routes : public ::testing::TestWithParam<route_case> {
 protected:
  routes() : pair({.route = GetParam().policy}) {
    pair.connect_ends();
    // The first access requests the mapping, which exists when both devices are idle.
    const send_request warm{.opcode = opcode::rdma_write,
                            .flags = signaled,
                            .remote_address = target.address(),
                            .remote_key = target.key()};
    EXPECT_EQ(post(*pair.a->qp, warm, {source.slice(4096, 1)}), 0);
    EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
    target.data()[0] = buffer::pattern(2, 0);
    pair.settle();
    before = pair.left.path->counters();
  }
  completion run(const send_request& request, const std::vector<sge>& data) {
    EXPECT_EQ(post(*pair.a->qp, request, data), 0);
    return pair.wait_for(*pair.a->sent, 1).at(0);
  }
  std::uint64_t executed() {
    return pair.left.path->counters().*GetParam().expected - before.*GetParam().expected;
  }
  device_pair pair;
  shared_buffer source{pair.left, memory_kind::ordinary, 8192, 1};
  shared_buffer target{pair.right, GetParam().memory, 8192, 2};
  fabric_endpoint_counters before;
};

TEST_P(routes, write_places_bytes) {
  const completion done = run({.wr_id = 1,
                               .opcode = opcode::rdma_write,
                               .flags = signaled,
                               .remote_address = target.address() + 7,
                               .remote_key = target.key()},
                              {source.slice(3, 1000), source.slice(2000, 500)});
  EXPECT_EQ(done.status, completion_status::success);
  EXPECT_TRUE(target.holds(2, 0, 7, 0));
  EXPECT_TRUE(target.holds(1, 7, 1000, 3));
  EXPECT_TRUE(target.holds(1, 1007, 500, 2000));
  EXPECT_TRUE(target.holds(2, 1507, 100, 1507));
  EXPECT_EQ(executed(), 1U);
}

TEST_P(routes, read_fetches_bytes) {
  const completion done = run({.wr_id = 1,
                               .opcode = opcode::rdma_read,
                               .flags = signaled,
                               .remote_address = target.address() + 9,
                               .remote_key = target.key()},
                              {source.slice(0, 100), source.slice(1000, 3000)});
  EXPECT_EQ(done.status, completion_status::success);
  EXPECT_EQ(done.byte_count, 3100U);
  EXPECT_TRUE(source.holds(2, 0, 100, 9));
  EXPECT_TRUE(source.holds(2, 1000, 3000, 109));
  EXPECT_TRUE(source.holds(1, 4000, 100, 4000));
  EXPECT_EQ(executed(), 1U);
}

// The path executes requests in mapped memory as a list: words, each twice, and a read of them.
TEST_P(routes, list_of_requests_is_executed_in_order) {
  constexpr std::size_t words = 6;
  for (std::size_t i = 0; i < 2 * words; ++i) source.set_word(i, 100 + i);
  send_request next{.opcode = opcode::rdma_write, .remote_key = target.key()};
  pair.a->qp->sends().open();
  for (std::size_t i = 0; i < 2 * words; ++i) {
    next.wr_id = i;
    next.flags = i % 4 == 0 ? signaled : send_flags();
    next.remote_address = target.address() + i % words * 8;
    const sge piece = source.slice(i * 8, 8);
    EXPECT_EQ(pair.a->qp->sends().add(next, {&piece, 1}), 0);
  }
  next = {.wr_id = 2 * words,
          .opcode = opcode::rdma_read,
          .flags = signaled,
          .remote_address = target.address(),
          .remote_key = target.key()};
  const sge sink = source.slice(4096, words * 8);
  EXPECT_EQ(pair.a->qp->sends().add(next, {&sink, 1}), 0);
  pair.a->qp->sends().submit();
  const auto done = pair.wait_for(*pair.a->sent, 4);
  ASSERT_EQ(done.size(), 4U);
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].wr_id, 4 * i);
    EXPECT_EQ(done[i].status, completion_status::success);
  }
  for (std::size_t i = 0; i < words; ++i) {
    EXPECT_EQ(target.word(i), 100 + words + i);
    EXPECT_EQ(source.word(512 + i), 100 + words + i);
  }
  EXPECT_EQ(executed(), 2 * words + 1);
}

// Ranges that follow each other, ranges that overlap, and one place several times.
TEST_P(routes, list_to_neighbouring_and_equal_places_leaves_what_came_last) {
  struct part {
    std::size_t at, count, from;
  };
  constexpr std::array parts{part{0, 8, 0},    part{8, 8, 100},  part{16, 16, 200},
                             part{40, 8, 300}, part{40, 8, 400}, part{40, 8, 500},
                             part{48, 4, 600}, part{48, 4, 700}, part{44, 8, 800},
                             part{44, 8, 900}, part{40, 4, 1000}};
  std::vector<std::byte> expected(target.data(), target.data() + 64);
  pair.a->qp->sends().open();
  for (const auto& [at, count, from] : parts) {
    const std::array pieces{source.slice(from, 1), source.slice(from + 1, count - 1)};
    EXPECT_EQ(pair.a->qp->sends().add({.opcode = opcode::rdma_write,
                                       .flags = signaled,
                                       .remote_address = target.address() + at,
                                       .remote_key = target.key()},
                                      {pieces.data(), pieces.size()}),
              0);
    std::copy_n(source.data() + from, count, expected.begin() + static_cast<std::ptrdiff_t>(at));
  }
  pair.a->qp->sends().submit();
  for (const completion& done : pair.wait_for(*pair.a->sent, parts.size()))
    EXPECT_EQ(done.status, completion_status::success);
  EXPECT_TRUE(std::ranges::equal(std::span(target.data(), 64), expected));
  EXPECT_EQ(executed(), parts.size());
}

TEST_P(routes, list_ends_at_the_request_that_is_refused) {
  for (std::size_t i = 0; i < 4; ++i) source.set_word(i, 100 + i);
  pair.a->qp->sends().open();
  for (std::size_t i = 0; i < 4; ++i) {
    const sge piece = source.slice(i * 8, 8);
    EXPECT_EQ(pair.a->qp->sends().add({.wr_id = i,
                                       .opcode = opcode::rdma_write,
                                       .flags = signaled,
                                       .remote_address = target.address() + (i == 2 ? 8192 : i * 8),
                                       .remote_key = target.key()},
                                      {&piece, 1}),
              0);
  }
  pair.a->qp->sends().submit();
  const auto done = pair.wait_for(*pair.a->sent, 4);
  ASSERT_EQ(done.size(), 4U);
  const std::array expected{completion_status::success, completion_status::success,
                            completion_status::remote_access_error, completion_status::flushed};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(done[i].wr_id, i);
    EXPECT_EQ(done[i].status, expected[i]);
  }
  EXPECT_EQ(target.word(1), 101U);
  EXPECT_TRUE(target.holds(2, 24, 8, 24));
}

TEST_P(routes, list_ends_at_the_request_whose_local_key_is_invalid) {
  const sge good = source.slice(0, 8);
  const sge bad{source.address(), 8, source.key() + 1};
  pair.a->qp->sends().open();
  for (const sge* piece : {&good, &bad, &good}) {
    EXPECT_EQ(pair.a->qp->sends().add({.opcode = opcode::rdma_write,
                                       .flags = signaled,
                                       .remote_address = target.address(),
                                       .remote_key = target.key()},
                                      {piece, 1}),
              0);
  }
  pair.a->qp->sends().submit();
  const auto done = pair.wait_for(*pair.a->sent, 3);
  ASSERT_EQ(done.size(), 3U);
  EXPECT_EQ(done[0].status, completion_status::success);
  EXPECT_EQ(done[1].status, completion_status::local_protection_error);
  EXPECT_EQ(done[2].status, completion_status::flushed);
  EXPECT_EQ(executed(), 1U);
}

// parity: semantics-96
TEST_P(routes, atomics_change_the_target_once) {
  target.set_word(5, 40);
  send_request add{.wr_id = 1,
                   .opcode = opcode::fetch_add,
                   .flags = signaled,
                   .remote_address = target.address() + 40,
                   .remote_key = target.key(),
                   .compare_or_add = 2};
  EXPECT_EQ(run(add, {source.slice(0, 8)}).status, completion_status::success);
  EXPECT_EQ(source.word(0), 40U);
  EXPECT_EQ(target.word(5), 42U);
  add.opcode = opcode::compare_swap;
  add.compare_or_add = 42;
  add.swap = 7;
  EXPECT_EQ(run(add, {source.slice(8, 8)}).status, completion_status::success);
  EXPECT_EQ(source.word(1), 42U);
  EXPECT_EQ(target.word(5), 7U);
}

TEST_P(routes, responder_reports_the_rejection) {
  const completion done = run({.wr_id = 1,
                               .opcode = opcode::rdma_write,
                               .flags = signaled,
                               .remote_address = target.address() + 8192,
                               .remote_key = target.key()},
                              {source.slice(0, 8)});
  EXPECT_EQ(done.status, completion_status::remote_access_error);
  EXPECT_EQ(done.vendor_error, static_cast<std::uint32_t>(reason::remote_range));
  char text[512];
  pair.left.core->explain(done.qp_num, 1, done.vendor_error, text, sizeof text);
  EXPECT_NE(std::string(text).find("+ 8 bytes is outside the region of rkey"), std::string::npos)
      << text;
  EXPECT_EQ(pair.b->qp->state(), queue_pair_state::error);
  EXPECT_EQ(pair.a->qp->state(), queue_pair_state::error);
}

// parity: semantics-15
TEST_P(routes, no_access_after_deregistration) {
  const std::uint32_t key = target.key();
  target.deregister();
  const completion done = run({.wr_id = 1,
                               .opcode = opcode::rdma_write,
                               .flags = signaled,
                               .remote_address = target.address(),
                               .remote_key = key},
                              {source.slice(0, 8)});
  EXPECT_EQ(done.status, completion_status::remote_access_error);
  EXPECT_TRUE(target.holds(2, 0, 8192, 0));
}

// A peer may poll the last byte of a WRITE and then read the others.
// parity: semantics-86
TEST_P(routes, last_byte_of_a_write_is_visible_last) {
  constexpr std::array<std::size_t, 9> lengths = {1, 2, 3, 7, 8, 9, 100, 1000, 4000};
  constexpr std::size_t steps = 240;  // each has its own value of the bytes
  const auto length_of = [&](std::size_t step) { return lengths[step % lengths.size()]; };
  const auto place_of = [](std::size_t step) { return step / 7 % 16; };
  std::fill_n(target.data(), 8192, std::byte{0});
  std::atomic<std::size_t> seen{0};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    for (std::size_t step = 0; step < steps; ++step) {
      const auto value = static_cast<std::byte>(step + 1);
      const std::span<std::byte> bytes(target.data() + place_of(step), length_of(step));
      while (std::atomic_ref(bytes.back()).load(std::memory_order_acquire) != value)
        if (stop) return;
      ASSERT_EQ(std::ranges::count(bytes, value), std::ssize(bytes)) << "step " << step;
      seen = step + 1;
    }
  });
  for (std::size_t step = 0; step < steps; ++step) {
    std::fill_n(source.data(), length_of(step), static_cast<std::byte>(step + 1));
    const completion done = run({.opcode = opcode::rdma_write,
                                 .flags = signaled,
                                 .remote_address = target.address() + place_of(step),
                                 .remote_key = target.key()},
                                {source.slice(0, length_of(step))});
    EXPECT_EQ(done.status, completion_status::success);
    if (!pair.until([&] { return seen > step; })) break;
  }
  stop = true;
  reader.join();
  EXPECT_EQ(seen, steps);
  EXPECT_GE(executed(), steps);
}

// parity: semantics-84
TEST_P(routes, write_does_not_overtake_a_send_in_rnr_wait) {
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 1, .flags = signaled}, {source.slice(0, 16)}), 0);
  ASSERT_EQ(post(*pair.a->qp,
                 {.wr_id = 2,
                  .opcode = opcode::rdma_write,
                  .flags = signaled,
                  .remote_address = target.address() + 64,
                  .remote_key = target.key()},
                 {source.slice(64, 16)}),
            0);
  pair.settle();
  EXPECT_TRUE(target.holds(2, 64, 16, 64));
  ASSERT_EQ(post_receive(*pair.b->qp, 3, {target.slice(0, 16)}), 0);
  pair.pass_time(640'000);
  const auto done = pair.wait_for(*pair.a->sent, 2);
  EXPECT_EQ(done[0].wr_id, 1U);
  EXPECT_EQ(done[0].status, completion_status::success);
  EXPECT_EQ(done[1].wr_id, 2U);
  EXPECT_EQ(done[1].status, completion_status::success);
  EXPECT_TRUE(target.holds(1, 0, 16, 0));
  EXPECT_TRUE(target.holds(1, 64, 16, 64));
}

TEST_P(routes, long_write_behind_a_send_keeps_its_route) {
  // The receiver has no receive request, so the send is outstanding when the write is posted.
  constexpr std::size_t bytes = 4096;
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 1, .flags = signaled}, {source.slice(0, 16)}), 0);
  ASSERT_EQ(post(*pair.a->qp,
                 {.wr_id = 2,
                  .opcode = opcode::rdma_write,
                  .flags = signaled,
                  .remote_address = target.address() + 64,
                  .remote_key = target.key()},
                 {source.slice(64, bytes)}),
            0);
  pair.settle();
  EXPECT_TRUE(target.holds(2, 64, bytes, 64)) << "the write must not overtake the send";
  ASSERT_EQ(post_receive(*pair.b->qp, 3, {target.slice(0, 16)}), 0);
  pair.pass_time(640'000);
  const auto done = pair.wait_for(*pair.a->sent, 2);
  EXPECT_EQ(done[0].wr_id, 1U);
  EXPECT_EQ(done[1].wr_id, 2U);
  EXPECT_EQ(done[1].status, completion_status::success);
  EXPECT_TRUE(target.holds(1, 64, bytes, 64));
  if (GetParam().expected == &fabric_endpoint_counters::mapped) {
    EXPECT_EQ(executed(), 1U) << "the payload must not go through the ring";
  }
}

INSTANTIATE_TEST_SUITE_P(
    between_processes, routes,
    ::testing::Values(route_case{"mapped", route_policy::automatic, memory_kind::shareable,
                                 &fabric_endpoint_counters::mapped},
                      route_case{"copied", route_policy::automatic, memory_kind::ordinary,
                                 &fabric_endpoint_counters::copied},
                      route_case{"mapped_without_cma", route_policy::no_cma, memory_kind::shareable,
                                 &fabric_endpoint_counters::mapped},
                      route_case{"ordinary_without_cma", route_policy::no_cma,
                                 memory_kind::ordinary, &fabric_endpoint_counters::by_ring},
                      route_case{"ring", route_policy::ring, memory_kind::shareable,
                                 &fabric_endpoint_counters::by_ring}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

struct host_paths : ::testing::Test {
  device_pair pair;
  shared_buffer source{pair.left, memory_kind::ordinary, 4096, 1};
  shared_buffer target{pair.right, memory_kind::ordinary, 4096, 2};
};

TEST_F(host_paths, send_delivers_immediate_data) {
  pair.connect_ends();
  ASSERT_EQ(post_receive(*pair.b->qp, 7, {target.slice(10, 30), target.slice(100, 400)}), 0);
  ASSERT_EQ(
      post(*pair.a->qp,
           {.wr_id = 9, .opcode = opcode::send_with_imm, .flags = signaled, .immediate = 0xfeed},
           {source.slice(0, 100), source.slice(300, 50)}),
      0);
  const completion received = pair.wait_for(*pair.b->received, 1).at(0);
  EXPECT_EQ(received.wr_id, 7U);
  EXPECT_EQ(received.byte_count, 150U);
  EXPECT_EQ(received.immediate, 0xfeedU);
  EXPECT_EQ(received.source_qp, pair.a->qp->number());
  EXPECT_TRUE(target.holds(1, 10, 30, 0));
  EXPECT_TRUE(target.holds(1, 100, 70, 30));
  EXPECT_TRUE(target.holds(1, 170, 50, 300));
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
}

// Another thread replies as soon as it sees the data, while the receiving thread still processes
// it.
TEST_F(host_paths, success_completes_before_the_reply_arrives) {
  struct replier final : completion_observer {
    end_point* server = nullptr;
    sge reply;
    void event(completion_queue&) override {
      std::thread([&] { EXPECT_EQ(post(*server->qp, {}, {reply}), 0); }).join();
    }
  } replies;
  replies.reply = target.slice(0, 8);
  struct looker final : completion_observer {
    end_point* client = nullptr;
    bool sent_was_there = false;
    void event(completion_queue&) override { sent_was_there = !client->sent->empty(); }
  } looks;
  looks.client = pair.a = &pair.left.make({.receive_observer = &looks});
  replies.server = pair.b = &pair.right.make({.receive_observer = &replies});
  pair.connect_ends();
  pair.settle();
  pair.a->received->arm(notify::any);
  pair.b->received->arm(notify::any);
  ASSERT_EQ(post_receive(*pair.a->qp, 1, {source.slice(0, 8)}), 0);
  ASSERT_EQ(post_receive(*pair.b->qp, 2, {target.slice(8, 8)}), 0);
  ASSERT_EQ(post(*pair.a->qp, {.flags = signaled}, {source.slice(8, 8)}), 0);
  EXPECT_EQ(pair.wait_for(*pair.a->received, 1).at(0).status, completion_status::success);
  EXPECT_TRUE(looks.sent_was_there);
}

// The running thread may already have checked the work that woke the other thread, so progress must
// run again.
TEST_F(host_paths, concurrent_progress_is_repeated) {
  struct visitor final : completion_observer {
    fabric_endpoint* path = nullptr;
    bool worked = true;
    void event(completion_queue&) override {
      std::thread([&] { worked = path->progress(); }).join();
    }
  } other;
  other.path = pair.right.path.get();
  pair.b = &pair.right.make({.receive_observer = &other});
  pair.connect_ends();
  pair.settle();
  pair.b->received->arm(notify::any);
  ASSERT_EQ(post_receive(*pair.b->qp, 1, {target.slice(0, 8)}), 0);
  ASSERT_EQ(post(*pair.a->qp, {.flags = signaled}, {source.slice(0, 8)}), 0);
  EXPECT_FALSE(pair.right.path->needs_progress());
  while (pair.b->received->empty()) pair.right.path->progress();
  EXPECT_FALSE(other.worked);
  EXPECT_TRUE(pair.right.path->needs_progress());
  pair.right.path->progress();
  EXPECT_FALSE(pair.right.path->needs_progress());
}

TEST_F(host_paths, sender_before_receiver_waits_for_its_timeout) {
  connect(*pair.a->qp, connection_to(pair.b->qp->number()));
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 9, .flags = signaled}, {source.slice(0, 100)}), 0);
  pair.settle();
  EXPECT_TRUE(pair.a->sent->empty());
  connect(*pair.b->qp, connection_to(pair.a->qp->number()));
  ASSERT_EQ(post_receive(*pair.b->qp, 7, {target.slice(0, 100)}), 0);
  pair.until([&] {
    virtual_now += 1'000'000;
    return !pair.a->sent->empty();
  });
  EXPECT_EQ(only(*pair.a->sent).status, completion_status::success);
}

TEST_F(host_paths, rnr_retries_are_limited) {
  pair.connect_ends();
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 9}, {source.slice(0, 100)}), 0);
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 10}, {source.slice(0, 100)}), 0);
  ASSERT_TRUE(pair.until([&] {
    virtual_now += 100'000;
    return !pair.a->sent->empty();
  }));
  const auto done = pair.wait_for(*pair.a->sent, 2);
  EXPECT_EQ(done[0].status, completion_status::rnr_retry_exceeded);
  EXPECT_EQ(done[1].status, completion_status::flushed);
  EXPECT_EQ(pair.b->qp->state(), queue_pair_state::rts);
}

// parity: semantics-34, semantics-91
TEST_F(host_paths, several_sends_in_rnr_arrive_once_and_in_order) {
  pair.connect_ends();
  for (std::uint64_t i = 0; i < 10; ++i)
    ASSERT_EQ(post(*pair.a->qp, {.wr_id = i, .flags = signaled}, {source.slice(i * 8, 8)}), 0);
  pair.settle();
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(post_receive(*pair.b->qp, i, {target.slice(i * 8, 8)}), 0);
    pair.pass_time(640'000);
  }
  const auto received = pair.wait_for(*pair.b->received, 10);
  const auto sent = pair.wait_for(*pair.a->sent, 10);
  for (std::uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(received[i].wr_id, i);
    EXPECT_EQ(sent[i].wr_id, i);
    EXPECT_EQ(sent[i].status, completion_status::success);
  }
  EXPECT_TRUE(target.holds(1, 0, 80, 0));
}

TEST_F(host_paths, message_longer_than_receive_buffer_fails_on_both_sides) {
  pair.connect_ends();
  ASSERT_EQ(post_receive(*pair.b->qp, 7, {target.slice(0, 10)}), 0);
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 9}, {source.slice(0, 16)}), 0);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status,
            completion_status::remote_invalid_request);
  EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).status,
            completion_status::local_length_error);
  EXPECT_TRUE(target.holds(2, 0, 4096, 0));
}

TEST_F(host_paths, unknown_qp_or_wrong_psn_fails_with_retry_exceeded) {
  auto attributes = connection_to(pair.b->qp->number() ^ 1U);
  connect(*pair.a->qp, attributes);
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 9}, {source.slice(0, 16)}), 0);
  ASSERT_TRUE(pair.until([&] {
    virtual_now += 5'000'000;
    return !pair.a->sent->empty();
  }));
  const completion unknown = only(*pair.a->sent);
  EXPECT_EQ(unknown.status, completion_status::retry_exceeded);
  EXPECT_EQ(unknown.vendor_error, static_cast<std::uint32_t>(reason::peer_unknown));

  end_point& c = pair.left.make();
  connect(*c.qp, connection_to(pair.b->qp->number()));
  attributes = connection_to(c.qp->number());
  attributes.receive_psn = 5;
  connect(*pair.b->qp, attributes);
  ASSERT_EQ(post(*c.qp,
                 {.wr_id = 9,
                  .opcode = opcode::rdma_write,
                  .remote_address = target.address(),
                  .remote_key = target.key()},
                 {source.slice(0, 16)}),
            0);
  ASSERT_TRUE(pair.until([&] {
    virtual_now += 5'000'000;
    return !c.sent->empty();
  }));
  EXPECT_EQ(only(*c.sent).vendor_error, static_cast<std::uint32_t>(reason::psn_mismatch));
  EXPECT_TRUE(target.holds(2, 0, 4096, 0));
}

// Returns a slot without a process. Other processes may use soft0 at the same time.
std::uint32_t empty_slot() {
  std::uint32_t slot = 0;
  while (connect_to_slot(slot).error != ECONNREFUSED) slot = (slot + 1) % slot_count;
  return slot;
}

TEST_F(host_paths, missing_process_fails_with_retry_exceeded) {
  const std::uint32_t nobody = empty_slot();
  connect(*pair.a->qp, connection_to(first_number_of(nobody) + 77U));
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 9}, {source.slice(0, 16)}), 0);
  const completion done = pair.wait_for(*pair.a->sent, 1).at(0);
  EXPECT_EQ(done.status, completion_status::retry_exceeded);
}

/// Queue pairs with a request each to a process that does not answer.
struct silent_peer : ::testing::Test {
  device_pair pair{{.pairing_timeout = std::chrono::milliseconds(1)}};
  shared_buffer source{pair.left, memory_kind::ordinary, 64, 1};
  std::vector<end_point*> senders{pair.a, &pair.left.make(), &pair.left.make()};

  void post_all() {
    for (const end_point* end : senders) {
      connect(*end->qp, connection_to(pair.b->qp->number()));
      ASSERT_EQ(post(*end->qp, {.wr_id = 9, .flags = signaled}, {source.slice(0, 16)}), 0);
    }
  }
  void turn_until_overdue() {
    const auto right = pair.left.peer_link->find(pair.right.peer_link->slot());
    ASSERT_NE(right, nullptr);
    const auto give_up = clock::now() + test_timeout;
    while (!right->is_overdue() && clock::now() < give_up) pair.left.turn();
    ASSERT_TRUE(right->is_overdue());
  }
  /// Expects that the timeout of each request passes.
  void expect_timeouts() {
    for (const end_point* end : senders) {
      const auto give_up = clock::now() + std::chrono::seconds(1);
      while (end->sent->empty() && clock::now() < give_up) {
        virtual_now += 10'000'000;
        pair.left.turn();
      }
      EXPECT_EQ(only(*end->sent).status, completion_status::retry_exceeded);
    }
  }
};

TEST_F(silent_peer, fails_the_requests_of_each_queue_pair) {
  post_all();
  turn_until_overdue();
  expect_timeouts();
}

TEST_F(silent_peer, fails_the_requests_of_a_queue_pair_in_use_when_it_became_overdue) {
  post_all();
  pair.left.turn();  // begins to pair, so the peer is not overdue yet
  {
    const std::lock_guard in_use(pair.a->qp->send_lock());
    turn_until_overdue();
    pair.left.turn();
  }
  expect_timeouts();
}

// The virtual clock stands still: no timeout of the requests passes.
TEST(overdue_peer, requests_in_both_directions_succeed_when_it_is_served) {
  device_pair pair({.pairing_timeout = std::chrono::milliseconds(1)});
  const shared_buffer source(pair.left, memory_kind::ordinary, 64, 1);
  const shared_buffer target(pair.right, memory_kind::ordinary, 64, 2);
  pair.connect_ends();
  for (end_point* end : {pair.a, pair.b}) {
    const shared_buffer& memory = end == pair.a ? source : target;
    ASSERT_EQ(post_receive(*end->qp, 7, {memory.slice(32, 16)}), 0);
    ASSERT_EQ(post(*end->qp, {.wr_id = 9, .flags = signaled}, {memory.slice(0, 16)}), 0);
  }
  const auto right = pair.left.peer_link->find(pair.right.peer_link->slot());
  ASSERT_NE(right, nullptr);
  const auto give_up = clock::now() + test_timeout;
  while (!right->is_overdue() && clock::now() < give_up) pair.left.turn();
  ASSERT_TRUE(right->is_overdue());
  for (end_point* end : {pair.a, pair.b}) {
    EXPECT_EQ(pair.wait_for(*end->sent, 1).at(0).status, completion_status::success);
    EXPECT_EQ(pair.wait_for(*end->received, 1).at(0).status, completion_status::success);
  }
}

TEST_F(host_paths, reset_queue_pairs_reconnect) {
  pair.connect_ends();
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 1, .flags = signaled}, {source.slice(0, 16)}), 0);
  pair.settle();
  for (int round = 0; round < 3; ++round) {
    for (end_point* end : {pair.a, pair.b})
      end->qp->modify({.state = queue_pair_state::reset}, attribute::state).value();
    pair.settle();
    EXPECT_TRUE(pair.a->sent->empty());
    pair.connect_ends();
    ASSERT_EQ(post_receive(*pair.b->qp, 7, {target.slice(0, 16)}), 0);
    ASSERT_EQ(post(*pair.a->qp, {.wr_id = 2, .flags = signaled}, {source.slice(0, 16)}), 0);
    EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).wr_id, 2U);
    EXPECT_EQ(pair.wait_for(*pair.b->received, 1).at(0).wr_id, 7U);
  }
}

/// Long messages through rings of 16 KiB.
struct small_rings : ::testing::Test {
  static constexpr std::size_t size = 300'000;
  device_pair pair{{.route = route_policy::ring, .ring_bytes = min_ring_bytes}};
  shared_buffer left{pair.left, memory_kind::ordinary, size, 1};
  shared_buffer right{pair.right, memory_kind::ordinary, size, 2};
  shared_buffer left_sink{pair.left, memory_kind::ordinary, size, 3};
  shared_buffer right_sink{pair.right, memory_kind::ordinary, size, 4};
};

TEST_F(small_rings, long_messages_arrive_in_both_directions_at_once) {
  pair.connect_ends();
  const auto start = [&](end_point& end, const shared_buffer& from, const shared_buffer& own_sink,
                         const shared_buffer& to) {
    ASSERT_EQ(post_receive(*end.qp, 1, {own_sink.slice(0, size / 2)}), 0);
    ASSERT_EQ(post(*end.qp,
                   {.wr_id = 2,
                    .opcode = opcode::rdma_write,
                    .flags = signaled,
                    .remote_address = to.address() + size / 2,
                    .remote_key = to.key()},
                   {from.slice(size / 2, size / 2)}),
              0);
    ASSERT_EQ(post(*end.qp, {.wr_id = 3, .flags = signaled},
                   {from.slice(0, 1000), from.slice(1000, size / 2 - 1000)}),
              0);
  };
  start(*pair.a, left, left_sink, right_sink);
  start(*pair.b, right, right_sink, left_sink);
  for (end_point* end : {pair.a, pair.b}) {
    for (const completion& done : pair.wait_for(*end->sent, 2))
      EXPECT_EQ(done.status, completion_status::success);
    EXPECT_EQ(pair.wait_for(*end->received, 1).at(0).byte_count, size / 2);
  }
  EXPECT_TRUE(right_sink.holds(1, 0, size, 0));
  EXPECT_TRUE(left_sink.holds(2, 0, size, 0));
}

TEST_F(small_rings, long_reads_complete_in_both_directions_at_once) {
  pair.connect_ends();
  const auto start = [&](end_point& end, const shared_buffer& sink, const shared_buffer& from) {
    for (std::uint64_t i = 0; i < 3; ++i)
      ASSERT_EQ(post(*end.qp,
                     {.wr_id = i,
                      .opcode = opcode::rdma_read,
                      .flags = signaled,
                      .remote_address = from.address() + i * 100'000,
                      .remote_key = from.key()},
                     {sink.slice(i * 100'000, 100'000)}),
                0);
  };
  start(*pair.a, left_sink, right);
  start(*pair.b, right_sink, left);
  for (end_point* end : {pair.a, pair.b})
    for (const completion& done : pair.wait_for(*end->sent, 3))
      EXPECT_EQ(done.status, completion_status::success);
  EXPECT_TRUE(left_sink.holds(2, 0, size, 0));
  EXPECT_TRUE(right_sink.holds(1, 0, size, 0));
}

TEST_F(small_rings, long_message_in_rnr_restarts_from_its_first_byte) {
  pair.connect_ends();
  ASSERT_EQ(post(*pair.a->qp, {.wr_id = 3, .flags = signaled}, {left.slice(0, size)}), 0);
  pair.settle();
  ASSERT_EQ(post_receive(*pair.b->qp, 1, {right_sink.slice(0, size)}), 0);
  pair.pass_time(640'000);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status, completion_status::success);
  EXPECT_TRUE(right_sink.holds(1, 0, size, 0));
}

// parity: semantics-17
TEST_F(small_rings, deregistration_during_a_long_write_fails_the_write) {
  pair.connect_ends();
  ASSERT_EQ(post(*pair.a->qp,
                 {.wr_id = 3,
                  .opcode = opcode::rdma_write,
                  .remote_address = right_sink.address(),
                  .remote_key = right_sink.key()},
                 {left.slice(0, size)}),
            0);
  ASSERT_TRUE(pair.until([&] { return right_sink.holds(1, 0, 8, 0); }));
  right_sink.deregister();
  const completion done = pair.wait_for(*pair.a->sent, 1).at(0);
  EXPECT_EQ(done.status, completion_status::remote_access_error);
  EXPECT_TRUE(right_sink.holds(4, size - 8, 8, size - 8));
}

// parity: semantics-16
TEST_F(small_rings, deregistration_during_a_long_read_fails_the_read) {
  pair.connect_ends();
  ASSERT_EQ(post(*pair.a->qp,
                 {.wr_id = 3,
                  .opcode = opcode::rdma_read,
                  .remote_address = right.address(),
                  .remote_key = right.key()},
                 {left_sink.slice(0, size)}),
            0);
  ASSERT_TRUE(pair.until([&] { return left_sink.holds(2, 0, 8, 0); }));
  right.deregister();
  const completion done = pair.wait_for(*pair.a->sent, 1).at(0);
  EXPECT_EQ(done.status, completion_status::remote_access_error);
  EXPECT_TRUE(left_sink.holds(3, size - 8, 8, size - 8));
  EXPECT_EQ(pair.b->qp->state(), queue_pair_state::error);
}

TEST_F(small_rings, many_queue_pairs_share_a_ring) {
  struct stream {
    end_point* from;
    end_point* to;
  };
  std::vector<stream> streams;
  for (int i = 0; i < 20; ++i) {
    device& one = i % 2 == 0 ? pair.left : pair.right;
    device& two = i % 2 == 0 ? pair.right : pair.left;
    streams.push_back({&one.make(), &two.make()});
    connect(*streams.back().from->qp, connection_to(streams.back().to->qp->number()));
    connect(*streams.back().to->qp, connection_to(streams.back().from->qp->number()));
  }
  for (std::uint64_t i = 0; i < streams.size(); ++i) {
    const bool leftwards = i % 2 != 0;
    const shared_buffer& from = leftwards ? right : left;
    const shared_buffer& to = leftwards ? left_sink : right_sink;
    for (std::uint64_t k = 0; k < 10; ++k) {
      const std::size_t at = i * 10'000 + k * 1000;
      ASSERT_EQ(post_receive(*streams[i].to->qp, k, {to.slice(at, 1000)}), 0);
      ASSERT_EQ(post(*streams[i].from->qp, {.wr_id = k, .flags = signaled}, {from.slice(at, 1000)}),
                0);
    }
  }
  for (std::uint64_t i = 0; i < streams.size(); ++i) {
    const auto done = pair.wait_for(*streams[i].from->sent, 10);
    for (std::uint64_t k = 0; k < 10; ++k) {
      EXPECT_EQ(done[k].status, completion_status::success);
      EXPECT_EQ(done[k].wr_id, k);
    }
    const shared_buffer& to = i % 2 != 0 ? left_sink : right_sink;
    EXPECT_TRUE(to.holds(i % 2 != 0 ? 2 : 1, i * 10'000, 10'000, i * 10'000));
  }
}

}  // namespace
}  // namespace verbena::softdev::testing
