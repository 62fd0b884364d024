// SPDX-License-Identifier: MIT
// Successful requests: placed bytes and completions.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

using data_path = connected;

TEST_F(data_path, send_fills_the_receive_list_in_order) {
  ASSERT_EQ(
      post_receive(*b.qp, 7, {target.slice(100, 10), target.slice(0, 0), target.slice(500, 90)}),
      0);
  ASSERT_EQ(
      post(*a.qp, {.wr_id = 9, .flags = signaled}, {source.slice(0, 30), source.slice(64, 41)}), 0);
  const completion sent = only(*a.sent);
  EXPECT_EQ(sent.wr_id, 9U);
  EXPECT_EQ(sent.status, completion_status::success);
  EXPECT_EQ(sent.opcode, completion_opcode::send);
  EXPECT_EQ(sent.qp_num, a.qp->number());
  const completion received = only(*b.received);
  EXPECT_EQ(received.wr_id, 7U);
  EXPECT_EQ(received.opcode, completion_opcode::receive);
  EXPECT_EQ(received.byte_count, 71U);
  EXPECT_EQ(received.flags, 0U);
  EXPECT_EQ(received.source_qp, a.qp->number());
  EXPECT_EQ(received.qp_num, b.qp->number());
  EXPECT_TRUE(target.holds(1, 100, 10, 0));
  EXPECT_TRUE(target.holds(1, 500, 20, 10));
  EXPECT_TRUE(target.holds(1, 520, 41, 64));
  EXPECT_TRUE(target.holds(2, 561, 100, 561)) << "bytes after the message are unchanged";
}

TEST_F(data_path, immediate_data_arrives_with_send_and_write) {
  ASSERT_EQ(post_receive(*b.qp, 1, {target.slice(0, 64)}), 0);
  ASSERT_EQ(post_receive(*b.qp, 2, {}), 0);
  ASSERT_EQ(
      post(*a.qp,
           {.wr_id = 3, .opcode = opcode::send_with_imm, .flags = signaled, .immediate = 0xdecaf},
           {source.slice(0, 8)}),
      0);
  ASSERT_EQ(post(*a.qp,
                 {.wr_id = 4,
                  .opcode = opcode::rdma_write_with_imm,
                  .flags = signaled,
                  .immediate = 0xbeef,
                  .remote_address = target.address() + 128,
                  .remote_key = target.key()},
                 {source.slice(8, 24)}),
            0);
  EXPECT_EQ(drain(*a.sent).size(), 2U);
  const auto received = drain(*b.received);
  ASSERT_EQ(received.size(), 2U);
  EXPECT_EQ(received[0].immediate, 0xdecafU);
  EXPECT_EQ(received[0].flags, completion_with_imm);
  EXPECT_EQ(received[1].opcode, completion_opcode::receive_rdma_with_imm);
  EXPECT_EQ(received[1].immediate, 0xbeefU);
  EXPECT_EQ(received[1].byte_count, 24U);
  EXPECT_TRUE(target.holds(1, 128, 24, 8));
}

TEST_F(data_path, write_places_bytes_without_a_receive) {
  ASSERT_EQ(post(*a.qp,
                 {.wr_id = 1,
                  .opcode = opcode::rdma_write,
                  .flags = signaled,
                  .remote_address = target.address() + 3,
                  .remote_key = target.key()},
                 {source.slice(5, 1000), source.slice(2000, 7)}),
            0);
  EXPECT_EQ(only(*a.sent).opcode, completion_opcode::rdma_write);
  EXPECT_TRUE(b.received->empty());
  EXPECT_TRUE(target.holds(2, 0, 3, 0));
  EXPECT_TRUE(target.holds(1, 3, 1000, 5));
  EXPECT_TRUE(target.holds(1, 1003, 7, 2000));
  EXPECT_TRUE(target.holds(2, 1010, 100, 1010));
}

TEST_F(data_path, read_scatters_into_local_elements) {
  ASSERT_EQ(post(*a.qp,
                 {.wr_id = 1,
                  .opcode = opcode::rdma_read,
                  .flags = signaled,
                  .remote_address = target.address() + 11,
                  .remote_key = target.key()},
                 {source.slice(0, 5), source.slice(100, 300)}),
            0);
  const completion done = only(*a.sent);
  EXPECT_EQ(done.opcode, completion_opcode::rdma_read);
  EXPECT_EQ(done.byte_count, 305U);
  EXPECT_TRUE(source.holds(2, 0, 5, 11));
  EXPECT_TRUE(source.holds(2, 100, 300, 16));
  EXPECT_TRUE(source.holds(1, 400, 100, 400));
}

// parity: semantics-94
TEST_F(data_path, atomics_return_the_original_value) {
  target.word(4) = 40;
  ASSERT_EQ(post(*a.qp,
                 {.wr_id = 1,
                  .opcode = opcode::fetch_add,
                  .flags = signaled,
                  .remote_address = target.address() + 32,
                  .remote_key = target.key(),
                  .compare_or_add = 2},
                 {source.slice(0, 8)}),
            0);
  EXPECT_EQ(source.word(0), 40U);
  EXPECT_EQ(target.word(4), 42U);
  ASSERT_EQ(post(*a.qp,
                 {.wr_id = 2,
                  .opcode = opcode::compare_swap,
                  .flags = signaled,
                  .remote_address = target.address() + 32,
                  .remote_key = target.key(),
                  .compare_or_add = 42,
                  .swap = 7},
                 {source.slice(8, 8)}),
            0);
  EXPECT_EQ(source.word(1), 42U);
  EXPECT_EQ(target.word(4), 7U);
  ASSERT_EQ(post(*a.qp,
                 {.wr_id = 3,
                  .opcode = opcode::compare_swap,
                  .flags = signaled,
                  .remote_address = target.address() + 32,
                  .remote_key = target.key(),
                  .compare_or_add = 42,
                  .swap = 9},
                 {source.slice(16, 8)}),
            0);
  EXPECT_EQ(source.word(2), 7U) << "a failed comparison returns the current value";
  EXPECT_EQ(target.word(4), 7U);
  const auto done = drain(*a.sent);
  ASSERT_EQ(done.size(), 3U);
  EXPECT_EQ(done[0].opcode, completion_opcode::fetch_add);
  EXPECT_EQ(done[1].opcode, completion_opcode::compare_swap);
  EXPECT_EQ(done[0].byte_count, 8U);
}

// parity: semantics-110
TEST_F(data_path, inline_data_is_copied_when_posted) {
  ASSERT_EQ(post_receive(*b.qp, 1, {target.slice(0, 64)}), 0);
  std::vector<std::byte> text(12, std::byte{0x5a});
  a.qp->sends().open();
  const sge unregistered{reinterpret_cast<std::uintptr_t>(text.data()), 12, 0};
  ASSERT_EQ(a.qp->sends().add({.wr_id = 1, .flags = signaled | send_flag::inline_data},
                              {&unregistered, 1}),
            0);
  std::fill(text.begin(), text.end(), std::byte{0});
  a.qp->sends().submit();
  EXPECT_EQ(only(*b.received).byte_count, 12U);
  EXPECT_TRUE(std::all_of(target.data(), target.data() + 12,
                          [](std::byte x) { return x == std::byte{0x5a}; }));
  EXPECT_EQ(only(*a.sent).status, completion_status::success);
}

TEST_F(data_path, inline_data_is_appended) {
  ASSERT_EQ(post_receive(*b.qp, 1, {target.slice(0, 64)}), 0);
  a.qp->sends().open();
  ASSERT_EQ(a.qp->sends().add({.wr_id = 1}), 0);
  ASSERT_EQ(a.qp->sends().append_inline("abc", 3), 0);
  ASSERT_EQ(a.qp->sends().append_inline("defg", 4), 0);
  EXPECT_EQ(a.qp->sends().append_inline(source.data(), 58), EINVAL) << "the limit is 64 bytes";
  a.qp->sends().submit();
  EXPECT_EQ(only(*b.received).byte_count, 7U);
  EXPECT_EQ(std::memcmp(target.data(), "abcdefg", 7), 0);
}

// parity: semantics-18
TEST_F(data_path, zero_length_request_needs_no_key) {
  ASSERT_EQ(
      post(*a.qp,
           {.wr_id = 1, .opcode = opcode::rdma_write, .flags = signaled, .remote_key = 0xbad}, {}),
      0);
  ASSERT_EQ(
      post(*a.qp, {.wr_id = 2, .opcode = opcode::rdma_read, .flags = signaled, .remote_key = 0xbad},
           {{.address = 1, .length = 0, .lkey = 0xbad}}),
      0);
  ASSERT_EQ(post_receive(*b.qp, 3, {}), 0);
  ASSERT_EQ(post(*a.qp, {.wr_id = 4, .flags = signaled}, {}), 0);
  for (const completion& done : drain(*a.sent)) EXPECT_EQ(done.status, completion_status::success);
  EXPECT_EQ(only(*b.received).byte_count, 0U);
}

TEST_F(data_path, region_with_iova_is_addressed_by_its_iova) {
  alignas(8) std::byte memory[256] = {};
  const std::uint32_t key = home->register_region({.base = memory,
                                                   .length = 256,
                                                   .iova = 0x1000,
                                                   .rights = everything,
                                                   .domain = domain_id{1}})
                                .value();
  ASSERT_EQ(post(*a.qp,
                 {.wr_id = 1,
                  .opcode = opcode::rdma_write,
                  .flags = signaled,
                  .remote_address = 0x1010,
                  .remote_key = key},
                 {source.slice(0, 100)}),
            0);
  EXPECT_EQ(only(*a.sent).status, completion_status::success);
  EXPECT_TRUE(std::equal(memory + 16, memory + 116, source.data()));
  EXPECT_TRUE(home->deregister_region(key));
}

// parity: semantics-98
TEST_F(data_path, unsignaled_request_generates_no_completion) {
  for (std::uint64_t i = 0; i < 5; ++i)
    ASSERT_EQ(post(*a.qp,
                   {.wr_id = i,
                    .opcode = opcode::rdma_write,
                    .flags = i == 4 ? signaled : send_flags(),
                    .remote_address = target.address() + i * 8,
                    .remote_key = target.key()},
                   {source.slice(i * 8, 8)}),
              0);
  EXPECT_EQ(only(*a.sent).wr_id, 4U);
  EXPECT_TRUE(target.holds(1, 0, 40, 0));
}

// parity: semantics-100
TEST_F(fabric, sq_sig_all_generates_a_completion_per_request) {
  end_point& a = make({.signal_all = true});
  end_point& b = make();
  connect_pair(a, b);
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .opcode = opcode::rdma_write}, {}), 0);
  EXPECT_EQ(only(*a.sent).wr_id, 1U);
}

TEST_F(fabric, queue_pair_connected_to_itself_transfers_data) {
  end_point& a = make();
  connect(*a.qp, connection_to(a.qp->number()));
  buffer memory(*home, 128, everything, 3);
  ASSERT_EQ(post_receive(*a.qp, 1, {memory.slice(64, 64)}), 0);
  ASSERT_EQ(post(*a.qp, {.wr_id = 2, .flags = signaled}, {memory.slice(0, 64)}), 0);
  EXPECT_EQ(only(*a.sent).wr_id, 2U);
  EXPECT_EQ(only(*a.received).wr_id, 1U);
  EXPECT_TRUE(memory.holds(3, 64, 64, 0));
}

TEST_F(data_path, every_size_and_alignment_is_transferred_intact) {
  for (std::size_t from = 0; from < 9; ++from)
    for (std::size_t to = 0; to < 9; ++to)
      for (const std::size_t bytes :
           {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 64, 127, 255, 256, 257, 300, 391, 1025}) {
        buffer sink(*home, 1200, everything, 77);
        ASSERT_EQ(post(*a.qp,
                       {.opcode = opcode::rdma_write,
                        .flags = signaled,
                        .remote_address = sink.address() + to,
                        .remote_key = sink.key()},
                       {source.slice(from, bytes)}),
                  0);
        ASSERT_EQ(only(*a.sent).status, completion_status::success);
        ASSERT_TRUE(sink.holds(1, to, bytes, from)) << from << ' ' << to << ' ' << bytes;
        ASSERT_TRUE(sink.holds(77, 0, to, 0));
        ASSERT_TRUE(sink.holds(77, to + bytes, 100, to + bytes));
      }
}

TEST_F(data_path, aborted_batch_posts_no_request) {
  a.qp->sends().open();
  ASSERT_EQ(a.qp->sends().add({.wr_id = 1, .opcode = opcode::rdma_write, .flags = signaled}), 0);
  a.qp->sends().abort();
  EXPECT_TRUE(a.sent->empty());
  ASSERT_EQ(post(*a.qp, {.wr_id = 2, .opcode = opcode::rdma_write, .flags = signaled}, {}), 0);
  EXPECT_EQ(only(*a.sent).wr_id, 2U);
}

TEST_F(data_path, refused_request_leaves_the_batch_unchanged) {
  a.qp->sends().open();
  const sge five[5] = {};
  ASSERT_EQ(a.qp->sends().add({.wr_id = 1, .opcode = opcode::rdma_write, .flags = signaled}, {}),
            0);
  EXPECT_EQ(
      a.qp->sends().add({.wr_id = 2, .opcode = opcode::rdma_write, .flags = signaled}, {five, 5}),
      EINVAL);
  EXPECT_EQ(a.qp->sends().add({.wr_id = 2, .opcode = static_cast<opcode>(99)}, {}), EINVAL);
  EXPECT_EQ(a.qp->sends().add(
                {.wr_id = 2, .opcode = opcode::rdma_read, .flags = send_flag::inline_data}, {}),
            EINVAL);
  a.qp->sends().submit();
  EXPECT_EQ(only(*a.sent).wr_id, 1U);
}

// parity: semantics-101
TEST_F(fabric, send_queue_slots_are_freed_when_completions_are_polled) {
  end_point& a =
      make({.capabilities = {
                .max_send_wr = 4, .max_receive_wr = 3, .max_send_sge = 1, .max_receive_sge = 1}});
  end_point& b = make();
  connect_pair(a, b);
  const send_request loud{.wr_id = 1, .opcode = opcode::rdma_write, .flags = signaled};
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) EXPECT_EQ(post(*a.qp, loud, {}), 0);
    EXPECT_EQ(post(*a.qp, loud, {}), ENOMEM);
    EXPECT_EQ(drain(*a.sent).size(), 4U);
  }
  const send_request silent{.wr_id = 1, .opcode = opcode::rdma_write};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(post(*a.qp, silent, {}), 0);
  EXPECT_EQ(post(*a.qp, loud, {}), 0);
  EXPECT_EQ(post(*a.qp, silent, {}), ENOMEM)
      << "unsignaled requests occupy slots until a later completion is polled";
  EXPECT_EQ(drain(*a.sent).size(), 1U);
  EXPECT_EQ(post(*a.qp, silent, {}), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(post_receive(*a.qp, 1, {}), 0);
  EXPECT_EQ(post_receive(*a.qp, 1, {}), ENOMEM);
}

}  // namespace
}  // namespace verbena::softdev::testing
