// SPDX-License-Identifier: MIT
// The lists that batches of the classic interface pass to a provider.
#include "verbena/verbs/send_batch.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "tests/unit/verbs/fake_queue.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/verbs/receive_batch.hpp"

namespace verbena {
namespace {

using test::fake_queue;

const local_slice slice(0x1000, 64, local_key(7));
const remote_region remote({.address = 0x2000, .length = 64, .key = remote_key(9)});

// parity: ibverbs-228, rrddmma-94
TEST(send_batch, links_requests_in_the_order_they_were_added) {
  fake_queue queue;
  send_batch<rc> batch(queue.native());
  batch.send({.id = 1}, slice);
  batch.send({.id = 2}, slice);
  batch.send({.id = 3, .signaled = true}, slice);
  EXPECT_EQ(queue.calls, 0U);
  EXPECT_TRUE(batch.submit());
  EXPECT_EQ(queue.calls, 1U);
  ASSERT_EQ(queue.sends.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(queue.sends[i].request.wr_id, i + 1);
    EXPECT_EQ(queue.sends[i].request.opcode, IBV_WR_SEND);
    ASSERT_EQ(queue.sends[i].slices.size(), 1U);
    EXPECT_EQ(queue.sends[i].slices[0].addr, 0x1000U);
    EXPECT_EQ(queue.sends[i].slices[0].length, 64U);
    EXPECT_EQ(queue.sends[i].slices[0].lkey, 7U);
  }
  EXPECT_EQ(queue.sends[0].request.send_flags, 0U);
  EXPECT_EQ(queue.sends[2].request.send_flags, unsigned{IBV_SEND_SIGNALED});
}

// parity: ibverbs-236, ibverbs-234
TEST(send_batch, flags_are_those_of_the_request) {
  fake_queue queue;
  send_batch<rc> batch(queue.native());
  batch.send({.fenced = true}, slice);
  batch.send({.solicited = true}, slice);
  batch.send({.signaled = true, .fenced = true, .solicited = true}, slice);
  EXPECT_TRUE(batch.submit());
  EXPECT_EQ(queue.sends[0].request.send_flags, unsigned{IBV_SEND_FENCE});
  EXPECT_EQ(queue.sends[1].request.send_flags, unsigned{IBV_SEND_SOLICITED});
  EXPECT_EQ(queue.sends[2].request.send_flags,
            unsigned{IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_SOLICITED});
}

// parity: ibverbs-tests-88, ibverbs-243
TEST(send_batch, each_operation_sets_its_own_fields) {
  fake_queue queue;
  send_batch<rc> batch(queue.native());
  const local_slice word = slice.slice(0, 8);
  batch.send_with_immediate({}, 0x01020304, slice);
  batch.write({}, slice, remote);
  batch.write_with_immediate({}, 0x0a0b0c0d, slice, remote);
  batch.read({}, slice, remote);
  batch.compare_and_swap({}, word, remote, {.expected = 5, .desired = 6});
  batch.fetch_and_add({}, word, remote, 11);
  EXPECT_TRUE(batch.submit());
  ASSERT_EQ(queue.sends.size(), 6U);

  EXPECT_EQ(queue.sends[0].request.opcode, IBV_WR_SEND_WITH_IMM);
  EXPECT_EQ(queue.sends[0].request.imm_data, htonl(0x01020304));
  EXPECT_EQ(queue.sends[1].request.opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(queue.sends[2].request.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
  EXPECT_EQ(queue.sends[2].request.imm_data, htonl(0x0a0b0c0d));
  EXPECT_EQ(queue.sends[3].request.opcode, IBV_WR_RDMA_READ);
  for (const std::size_t i : {1, 2, 3}) {
    EXPECT_EQ(queue.sends[i].request.wr.rdma.remote_addr, 0x2000U);
    EXPECT_EQ(queue.sends[i].request.wr.rdma.rkey, 9U);
  }
  EXPECT_EQ(queue.sends[4].request.opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
  EXPECT_EQ(queue.sends[4].request.wr.atomic.compare_add, 5U);
  EXPECT_EQ(queue.sends[4].request.wr.atomic.swap, 6U);
  EXPECT_EQ(queue.sends[5].request.opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
  EXPECT_EQ(queue.sends[5].request.wr.atomic.compare_add, 11U);
  for (const std::size_t i : {4, 5}) {
    EXPECT_EQ(queue.sends[i].request.wr.atomic.remote_addr, 0x2000U);
    EXPECT_EQ(queue.sends[i].request.wr.atomic.rkey, 9U);
  }
}

// parity: ibverbs-251
TEST(send_batch, each_datagram_has_its_own_destination) {
  fake_queue queue;
  ibv_pd pd{};
  ibv_ah ways[2] = {{nullptr, &pd, 0}, {nullptr, &pd, 1}};
  queue.native()->pd = &pd;
  send_batch<ud> batch(queue.native());
  batch.send({.id = 1}, slice, destination(&ways[0], queue_pair_number(5), queue_key(6)));
  batch.send_with_immediate({.id = 2, .signaled = true}, 0x01020304, inline_data(bytes_of("x")),
                            destination(&ways[1], queue_pair_number(7), queue_key(8)));
  EXPECT_TRUE(batch.submit());
  ASSERT_EQ(queue.sends.size(), 2U);
  EXPECT_EQ(queue.sends[0].request.opcode, IBV_WR_SEND);
  EXPECT_EQ(queue.sends[0].request.wr.ud.ah, &ways[0]);
  EXPECT_EQ(queue.sends[0].request.wr.ud.remote_qpn, 5U);
  EXPECT_EQ(queue.sends[0].request.wr.ud.remote_qkey, 6U);
  EXPECT_EQ(queue.sends[0].slices.size(), 1U);
  EXPECT_EQ(queue.sends[1].request.opcode, IBV_WR_SEND_WITH_IMM);
  EXPECT_EQ(queue.sends[1].request.imm_data, htonl(0x01020304));
  EXPECT_EQ(queue.sends[1].request.send_flags, unsigned{IBV_SEND_INLINE | IBV_SEND_SIGNALED});
  EXPECT_EQ(queue.sends[1].request.wr.ud.ah, &ways[1]);
  EXPECT_EQ(queue.sends[1].request.wr.ud.remote_qpn, 7U);
}

// parity: rrddmma-97
TEST(send_batch, lists_of_slices_are_not_copied) {
  fake_queue queue;
  send_batch<rc> batch(queue.native());
  const std::array list = {slice.slice(0, 10), slice.slice(20, 5)};
  const std::span<const local_slice> none;
  batch.send({.id = 1}, list);
  batch.send({.id = 2}, none);
  EXPECT_TRUE(batch.submit());
  EXPECT_EQ(static_cast<const void*>(queue.sends[0].request.sg_list), list.data());
  ASSERT_EQ(queue.sends[0].slices.size(), 2U);
  EXPECT_EQ(queue.sends[0].slices[1].addr, 0x1000U + 20);
  EXPECT_EQ(queue.sends[1].request.num_sge, 0);
}

// parity: ibverbs-240
TEST(send_batch, inline_data_sets_the_flag_and_omits_empty_pieces) {
  fake_queue queue;
  send_batch<rc> batch(queue.native());
  const std::array pieces = {inline_data(bytes_of("ab")), inline_data(bytes_of("")),
                             inline_data(bytes_of("cde"))};
  batch.send({.signaled = true}, inline_data(bytes_of("hello")));
  batch.write({}, pieces, remote);
  batch.send({}, inline_data(bytes_of("")));
  EXPECT_TRUE(batch.submit());
  EXPECT_EQ(queue.sends[0].request.send_flags, unsigned{IBV_SEND_INLINE | IBV_SEND_SIGNALED});
  ASSERT_EQ(queue.sends[0].slices.size(), 1U);
  EXPECT_EQ(queue.sends[0].slices[0].length, 5U);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(queue.sends[0].slices[0].addr), "hello", 5),
            0);
  ASSERT_EQ(queue.sends[1].slices.size(), 2U);
  EXPECT_EQ(queue.sends[1].slices[0].length, 2U);
  EXPECT_EQ(queue.sends[1].slices[1].length, 3U);
  EXPECT_EQ(queue.sends[2].slices.size(), 0U);
}

// parity: ibverbs-231
TEST(send_batch, full_batch_is_posted) {
  fake_queue queue;
  send_batch<rc, 4> batch(queue.native());
  for (std::uint64_t id = 0; id < 4; ++id) batch.write({.id = id}, slice, remote);
  EXPECT_TRUE(batch.submit());
  EXPECT_EQ(queue.calls, 1U);
  ASSERT_EQ(queue.sends.size(), 4U);
  EXPECT_EQ(queue.sends[3].request.wr_id, 3U);
}

// parity: ibverbs-253, rrddmma-95
TEST(send_batch, refused_request_reports_accepted_count) {
  fake_queue queue;
  queue.room = 2;
  send_batch<rc> batch(queue.native());
  for (std::uint64_t id = 0; id < 5; ++id) batch.send({.id = id}, slice);
  const auto status = batch.submit();
  EXPECT_FALSE(status);
  EXPECT_EQ(status.code(), ENOMEM);
  EXPECT_EQ(status.accepted_before_failure(), 2U);
  EXPECT_EQ(queue.sends.size(), 2U);
}

/// Posts `count` sends and as many receives, and expects this outcome of both.
void expect_outcome(fake_queue& queue, std::uint64_t count, int code, std::uint32_t accepted) {
  const auto expect = [&](const post_status& status) {
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(status.accepted_before_failure(), accepted);
  };
  send_batch<rc> sends(queue.native());
  receive_batch<> receives(queue.native());
  for (std::uint64_t id = 0; id < count; ++id) {
    sends.send({.id = id}, slice);
    receives.receive({.id = id}, slice);
  }
  expect(sends.submit());
  expect(receives.submit());
}

TEST(send_batch, failed_doorbell_reports_all_requests_as_accepted) {
  fake_queue queue;
  queue.failing = fake_queue::failure::of_the_doorbell;
  expect_outcome(queue, 5, EIO, 5);
  expect_outcome(queue, 1, EIO, 1);
  expect_outcome(queue, 16, EIO, 16);
  EXPECT_EQ(detail::post_one_receive(queue.native(), {}, slice).accepted_before_failure(), 1U);
}

TEST(send_batch, unsupported_operation_reports_no_request_as_accepted) {
  fake_queue queue;
  // Leaves the address of a request in the memory of later batches.
  queue.room = 3;
  expect_outcome(queue, 5, ENOMEM, 3);
  queue.failing = fake_queue::failure::of_an_unsupported_operation;
  expect_outcome(queue, 5, EOPNOTSUPP, 0);
  expect_outcome(queue, 1, EOPNOTSUPP, 0);
  EXPECT_EQ(detail::post_one_receive(queue.native(), {}, slice).accepted_before_failure(), 0U);
}

#ifndef VERBENA_CHECKED
// A violation of the contract, which checked builds detect.
TEST(send_batch, second_submit_after_a_failure_posts_nothing) {
  fake_queue queue;
  queue.room = 2;
  send_batch<rc, 4> batch(queue.native());
  for (std::uint64_t id = 0; id < 4; ++id) batch.send({.id = id}, slice);
  EXPECT_EQ(batch.submit().code(), ENOMEM);
  queue.room = 1000;
  EXPECT_EQ(batch.submit().code(), ENOBUFS);
  EXPECT_EQ(queue.calls, 1U);
}
#endif

TEST(send_batch, destroyed_batch_posts_nothing) {
  fake_queue queue;
  {
    send_batch<rc> batch(queue.native());
    batch.send({.id = 1}, slice);
  }
  EXPECT_EQ(queue.calls, 0U);
}

// parity: ibverbs-255
TEST(send_batch, submit_of_empty_batch_succeeds_without_a_verb) {
  fake_queue queue;
  send_batch<rc> batch(queue.native());
  EXPECT_TRUE(batch.submit());
  receive_batch<> receives(queue.native());
  EXPECT_TRUE(receives.submit());
  EXPECT_EQ(queue.calls, 0U);
}

TEST(receive_batch, links_requests_with_their_slices) {
  fake_queue queue;
  receive_batch<4> batch(queue.native());
  const std::vector list = {slice.slice(0, 8), slice.slice(8, 8), slice.slice(16, 8)};
  batch.receive({.id = 1}, slice);
  batch.receive({.id = 2}, list);
  batch.receive({.id = 3}, slice.slice(32));
  EXPECT_EQ(queue.calls, 0U);
  EXPECT_TRUE(batch.submit());
  ASSERT_EQ(queue.receives.size(), 3U);
  EXPECT_EQ(queue.receives[0].request.wr_id, 1U);
  EXPECT_EQ(queue.receives[0].slices[0].length, 64U);
  EXPECT_EQ(queue.receives[1].slices.size(), 3U);
  EXPECT_EQ(queue.receives[2].slices[0].addr, 0x1000U + 32);
}

TEST(receive_batch, refused_request_reports_accepted_count) {
  fake_queue queue;
  queue.room = 3;
  receive_batch<8> batch(queue.native());
  for (std::uint64_t id = 0; id < 8; ++id) batch.receive({.id = id}, slice);
  const auto status = batch.submit();
  EXPECT_EQ(status.code(), ENOMEM);
  EXPECT_EQ(status.accepted_before_failure(), 3U);
}

// Opens a batch with guard bytes behind its storage, adds `count` sends and submits it.
template <std::size_t Capacity>
post_status post_guarded(fake_queue& queue, std::size_t count) {
  struct {
    detail::send_storage<Capacity> storage;
    std::array<std::byte, 4096> guard;
  } memory;
  memory.guard.fill(std::byte{0x5a});
  send_batch<rc, Capacity, detail::send_storage<Capacity>&> batch(queue.native(), memory.storage);
  for (std::size_t i = 0; i < count; ++i) batch.write({.id = i}, slice, remote);
  EXPECT_EQ(batch.size(), std::min(count, Capacity));
  EXPECT_EQ(batch.full(), count >= Capacity);
  const auto status = batch.submit();
  for (const std::byte one : memory.guard) EXPECT_EQ(one, std::byte{0x5a});
  return status;
}

TEST(send_batch, add_beyond_the_capacity_makes_submit_post_nothing) {
  fake_queue queue;
  queue.native()->qp_num = 0x11;
  send_batch<rc> batch(queue.native());
  EXPECT_EQ(batch.capacity(), 16U);
  for (std::uint64_t id = 0; id < 16; ++id) {
    EXPECT_EQ(batch.size(), id);
    EXPECT_FALSE(batch.full());
    batch.write({.id = id}, slice, remote);
  }
  EXPECT_TRUE(batch.full());
  batch.write({.id = 16}, slice, remote);
  EXPECT_TRUE(batch.full());
  EXPECT_EQ(batch.size(), 16U);
  const auto status = batch.submit();
  EXPECT_EQ(status.code(), ENOBUFS);
  EXPECT_EQ(status.accepted_before_failure(), 0U);
  EXPECT_EQ(status.excess(), 1U);
  EXPECT_EQ(queue.calls, 0U);
  EXPECT_EQ(status.error().message(),
            "ibv_post_send on queue pair 0x11 failed: No buffer space available (errno 105): no "
            "request was posted: 17 requests were added to a batch of 16; open it with "
            "start_send<17>() or submit earlier");
  EXPECT_EQ(batch.submit(), status);
  EXPECT_EQ(queue.calls, 0U);
}

TEST(send_batch, no_add_writes_beyond_the_storage) {
  fake_queue queue;
  for (const std::size_t count : {1U, 2U, 3U, 7U, 8U, 9U, 100U}) {
    EXPECT_EQ(post_guarded<1>(queue, count).has_value(), count <= 1) << count;
    EXPECT_EQ(post_guarded<7>(queue, count).has_value(), count <= 7) << count;
    EXPECT_EQ(post_guarded<8>(queue, count).has_value(), count <= 8) << count;
  }
}

TEST(send_batch, excess_counts_every_request_that_did_not_fit) {
  fake_queue queue;
  EXPECT_EQ(post_guarded<7>(queue, 100).excess(), 93U);
  EXPECT_EQ(post_guarded<8>(queue, 100000).excess(), 65535U);
  // The 16-bit count of requests is 0 again.
  EXPECT_EQ(post_guarded<8>(queue, 65536).code(), ENOBUFS);
  EXPECT_EQ(post_guarded<8>(queue, 131072).code(), ENOBUFS);
}

TEST(send_batch, list_of_inline_data_that_does_not_fit_makes_submit_post_nothing) {
  fake_queue queue;
  send_batch<rc, 2> batch(queue.native());
  const std::vector<inline_data> pieces(4, inline_data(bytes_of("x")));
  batch.send({}, pieces);
  batch.send({}, slice);
  EXPECT_EQ(batch.size(), 2U);
  const auto status = batch.submit();
  EXPECT_EQ(status.code(), ENOBUFS);
  EXPECT_EQ(status.excess(), 1U);
  EXPECT_EQ(queue.calls, 0U);
}

TEST(send_batch, lists_of_inline_data_beyond_the_capacity_stay_in_the_storage) {
  fake_queue queue;
  const std::array pieces = {inline_data(bytes_of("a")), inline_data(bytes_of("b"))};
  for (std::size_t count = 1; count < 20; ++count) {
    struct {
      detail::send_storage<4> storage;
      std::array<std::byte, 4096> guard;
    } memory;
    memory.guard.fill(std::byte{0x5a});
    send_batch<rc, 4, detail::send_storage<4>&> batch(queue.native(), memory.storage);
    for (std::size_t i = 0; i < count; ++i) batch.send({}, pieces);
    EXPECT_EQ(batch.submit().has_value(), count <= 2) << count;
    for (const std::byte one : memory.guard) EXPECT_EQ(one, std::byte{0x5a});
  }
}

// Fills a batch of one request in guarded storage, then calls `add(batch)`, which adds `beyond`.
template <class Transport, class Add>
void add_to_full(fake_queue& queue, std::size_t beyond, Add add) {
  struct {
    detail::send_storage<1> storage;
    std::array<std::byte, 4096> guard;
  } memory;
  memory.guard.fill(std::byte{0x5a});
  send_batch<Transport, 1, detail::send_storage<1>&> batch(queue.native(), memory.storage);
  add(batch);
  EXPECT_EQ(batch.size(), 1U);
  const auto status = batch.submit();
  EXPECT_EQ(status.code(), ENOBUFS);
  EXPECT_EQ(status.excess(), beyond);
  EXPECT_EQ(queue.calls, 0U);
  for (const std::byte one : memory.guard) EXPECT_EQ(one, std::byte{0x5a});
}

TEST(send_batch, each_operation_beyond_the_capacity_is_counted_and_not_written) {
  fake_queue queue;
  const local_slice word = slice.slice(0, 8);
  const std::array list = {slice, slice};
  const std::array pieces = {inline_data(bytes_of("a")), inline_data(bytes_of("b"))};
  const remote_region wide({.address = 0x2000, .length = 128, .key = remote_key(9)});
  add_to_full<rc>(queue, 9, [&](auto& batch) {
    batch.send({}, slice);
    batch.send({}, list);
    batch.send({}, inline_data(bytes_of("x")));
    batch.send({}, pieces);
    batch.send_with_immediate({}, 1, slice);
    batch.write({}, list, wide);
    batch.write_with_immediate({}, 1, slice, wide);
    batch.read({}, list, wide);
    batch.compare_and_swap({}, word, wide, {.expected = 1, .desired = 2});
    batch.fetch_and_add({}, word, wide, 1);
  });
  ibv_pd pd{};
  ibv_ah way{nullptr, &pd, 0};
  queue.native()->pd = &pd;
  const destination to(&way, queue_pair_number(5), queue_key(6));
  add_to_full<ud>(queue, 2, [&](auto& batch) {
    batch.send({}, slice, to);
    batch.send({}, slice, to);
    batch.send_with_immediate({}, 1, slice, to);
  });
}

TEST(receive_batch, add_beyond_the_capacity_makes_submit_post_nothing) {
  fake_queue queue;
  receive_batch<3> batch(queue.native());
  for (std::uint64_t id = 0; id < 5; ++id) batch.receive({.id = id}, slice);
  EXPECT_TRUE(batch.full());
  EXPECT_EQ(batch.size(), 3U);
  const auto status = batch.submit();
  EXPECT_EQ(status.code(), ENOBUFS);
  EXPECT_EQ(status.excess(), 2U);
  EXPECT_EQ(queue.calls, 0U);
  EXPECT_EQ(status.error().call(), "ibv_post_recv");
}

#ifdef VERBENA_CHECKED
TEST(send_batch_death, add_or_submit_after_submit_stops_the_program) {
  fake_queue queue;
  send_batch<rc> batch(queue.native());
  batch.send({}, slice);
  EXPECT_TRUE(batch.submit());
  EXPECT_DEATH(batch.send({}, slice), "a request was added to a batch after submit");
  EXPECT_DEATH(static_cast<void>(batch.submit()),
               "submit\\(\\) of a batch that was submitted before");
  EXPECT_DEATH(static_cast<void>(batch.size()), "size\\(\\) or full\\(\\) of a batch");
  EXPECT_DEATH(static_cast<void>(batch.full()), "size\\(\\) or full\\(\\) of a batch");
}

TEST(send_batch_death, data_beyond_the_remote_region_stops_the_program) {
  fake_queue queue;
  send_batch<rc> batch(queue.native());
  const std::array list = {slice, slice};
  const char* const rule = "a request exceeds its remote region";
  EXPECT_DEATH(batch.write({}, list, remote), rule);
  EXPECT_DEATH(batch.read({}, slice, remote.slice(1)), rule);
  EXPECT_DEATH(batch.write_with_immediate({}, 1, slice, remote.slice(0, 63)), rule);
}

TEST(send_batch_death, address_handle_of_other_domain_stops_the_program) {
  fake_queue queue;
  ibv_pd own{};
  ibv_pd other{};
  ibv_ah way{nullptr, &other, 0};
  queue.native()->pd = &own;
  send_batch<ud> batch(queue.native());
  const destination to(&way, queue_pair_number(1), queue_key(1));
  EXPECT_DEATH(batch.send({}, slice, to), "the queue pair belong to different protection domains");
}

// parity: rrddmma-89
TEST(send_batch_death, atomic_without_eight_aligned_bytes_stops_the_program) {
  fake_queue queue;
  send_batch<rc> batch(queue.native());
  EXPECT_DEATH(batch.fetch_and_add({}, slice, remote, 1),
               "the slices of an atomic operation do not have 8 bytes");
  EXPECT_DEATH(batch.compare_and_swap({}, slice.slice(0, 8), remote.slice(4), {1, 2}),
               "the target of an atomic operation is not aligned to 8 bytes");
}

TEST(receive_batch_death, add_or_submit_after_submit_stops_the_program) {
  fake_queue queue;
  receive_batch<> batch(queue.native());
  EXPECT_TRUE(batch.submit());
  batch.receive({}, slice);
  EXPECT_TRUE(batch.submit());
  EXPECT_DEATH(batch.receive({}, slice), "a request was added to a batch after submit");
  EXPECT_DEATH(static_cast<void>(batch.submit()),
               "submit\\(\\) of a batch that was submitted before");
  EXPECT_DEATH(static_cast<void>(batch.size()), "size\\(\\) or full\\(\\) of a batch");
  EXPECT_DEATH(static_cast<void>(batch.full()), "size\\(\\) or full\\(\\) of a batch");
}

TEST(send_batch_death, inline_data_of_four_gigabytes_stops_the_program) {
  constexpr std::size_t limit = std::size_t{1} << 32U;
  // The bytes are not read.
  const auto* const begin = reinterpret_cast<const std::byte*>(&slice);
  EXPECT_EQ(inline_data({begin, limit - 1}).length(), limit - 1);
  EXPECT_DEATH(static_cast<void>(inline_data({begin, limit})), "inline data has 4 GiB or more");
}
#endif

}  // namespace
}  // namespace verbena
