// SPDX-License-Identifier: MIT
// Transfers in one process through the classic interface. Received bytes are compared with a
// pattern that depends on a seed.
#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

ibv_send_wr request(std::uint64_t wr_id, ibv_wr_opcode opcode, std::vector<ibv_sge>& data) {
  ibv_send_wr result{};
  result.wr_id = wr_id;
  result.opcode = opcode;
  result.send_flags = IBV_SEND_SIGNALED;
  result.sg_list = data.data();
  result.num_sge = static_cast<int>(data.size());
  return result;
}

// The tests run with one queue pair that is connected to itself, and with two connected queue
// pairs.
class transfer : public ::testing::TestWithParam<bool> {
 protected:
  transfer() : first_(device_), second_(device_) {
    if (GetParam()) {
      connect(first_, first_);
    } else {
      connect(first_, second_);
    }
  }
  queue_pair_handle& sender() { return first_; }
  queue_pair_handle& receiver() { return GetParam() ? first_ : second_; }

  opened_device device_;
  queue_pair_handle first_;
  queue_pair_handle second_;
};

TEST_P(transfer, send_arrives_in_the_receive_buffer) {
  for (const std::size_t bytes : {1U, 8U, 1023U, 4096U, 100'000U}) {
    buffer source(device_.pd, bytes, 1);
    buffer sink(device_.pd, bytes, 2);
    ASSERT_EQ(receiver().receive(7, {sink.slice(0, bytes)}), 0);
    std::vector<ibv_sge> data = {source.slice(0, bytes)};
    ASSERT_EQ(sender().send(request(8, IBV_WR_SEND, data)), 0);
    for (int i = 0; i < 2; ++i) {
      const ibv_wc done = device_.wait();
      EXPECT_EQ(done.status, IBV_WC_SUCCESS);
      EXPECT_EQ(done.opcode, done.wr_id == 7 ? IBV_WC_RECV : IBV_WC_SEND);
      if (done.wr_id == 7) {
        EXPECT_EQ(done.byte_len, bytes);
        EXPECT_EQ(done.qp_num, receiver().get()->qp_num);
        EXPECT_EQ(done.wc_flags, 0U);
      }
    }
    EXPECT_EQ(sink.copy(0, bytes), pattern(1, bytes));
  }
}

TEST_P(transfer, segments_are_gathered_and_scattered) {
  buffer source(device_.pd, 300, 3);
  buffer sink(device_.pd, 300, 4);
  ASSERT_EQ(receiver().receive(1, {sink.slice(0, 10), sink.slice(50, 90)}), 0);
  std::vector<ibv_sge> data = {source.slice(100, 33), source.slice(0, 33), source.slice(200, 34)};
  ASSERT_EQ(sender().send(request(2, IBV_WR_SEND, data)), 0);
  EXPECT_EQ(device_.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(device_.wait().status, IBV_WC_SUCCESS);
  std::vector<std::byte> sent = source.copy(100, 33);
  for (const auto& piece : {source.copy(0, 33), source.copy(200, 34)})
    sent.insert(sent.end(), piece.begin(), piece.end());
  std::vector<std::byte> received = sink.copy(0, 10);
  const auto rest = sink.copy(50, 90);
  received.insert(received.end(), rest.begin(), rest.end());
  EXPECT_EQ(received, sent);
  EXPECT_EQ(sink.copy(10, 40), buffer(device_.pd, 300, 4).copy(10, 40));
}

TEST_P(transfer, immediate_data_arrives_unchanged) {
  buffer source(device_.pd, 64, 5);
  buffer sink(device_.pd, 64, 6);
  std::vector<ibv_sge> data = {source.slice(0, 64)};
  ASSERT_EQ(receiver().receive(1, {sink.slice(0, 64)}), 0);
  ibv_send_wr send = request(2, IBV_WR_SEND_WITH_IMM, data);
  send.imm_data = 0x12345678;
  ASSERT_EQ(sender().send(send), 0);
  for (int i = 0; i < 2; ++i) {
    const ibv_wc done = device_.wait();
    ASSERT_EQ(done.status, IBV_WC_SUCCESS);
    if (done.wr_id != 1) continue;
    EXPECT_EQ(done.wc_flags, IBV_WC_WITH_IMM);
    EXPECT_EQ(done.imm_data, 0x12345678U);
  }
  EXPECT_EQ(sink.copy(0, 64), pattern(5, 64));
}

TEST_P(transfer, write_changes_remote_memory_without_a_remote_completion) {
  buffer source(device_.pd, 4096, 7);
  buffer sink(device_.pd, 8192, 8);
  std::vector<ibv_sge> data = {source.slice(0, 4096)};
  ibv_send_wr write = request(1, IBV_WR_RDMA_WRITE, data);
  write.wr.rdma.remote_addr = sink.address() + 1000;
  write.wr.rdma.rkey = sink.mr().rkey;
  ASSERT_EQ(sender().send(write), 0);
  const ibv_wc done = device_.wait_for(1);
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(sink.copy(1000, 4096), pattern(7, 4096));
  const auto before = pattern(8, 8192);
  EXPECT_EQ(sink.copy(0, 1000), std::vector(before.begin(), before.begin() + 1000));
  EXPECT_EQ(sink.copy(5096, 3096), std::vector(before.begin() + 5096, before.end()));
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(device_.cq, 1, &none), 0);
}

TEST_P(transfer, write_with_immediate_consumes_a_receive) {
  buffer source(device_.pd, 128, 9);
  buffer sink(device_.pd, 128, 10);
  ASSERT_EQ(receiver().receive(1, {}), 0);
  std::vector<ibv_sge> data = {source.slice(0, 128)};
  ibv_send_wr write = request(2, IBV_WR_RDMA_WRITE_WITH_IMM, data);
  write.wr.rdma.remote_addr = sink.address();
  write.wr.rdma.rkey = sink.mr().rkey;
  write.imm_data = 77;
  ASSERT_EQ(sender().send(write), 0);
  for (int i = 0; i < 2; ++i) {
    const ibv_wc done = device_.wait();
    ASSERT_EQ(done.status, IBV_WC_SUCCESS);
    if (done.wr_id != 1) continue;
    EXPECT_EQ(done.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(done.byte_len, 128U);
    EXPECT_EQ(done.imm_data, 77U);
  }
  EXPECT_EQ(sink.copy(0, 128), pattern(9, 128));
}

TEST_P(transfer, read_fetches_remote_memory) {
  buffer local(device_.pd, 5000, 11);
  buffer remote(device_.pd, 5000, 12);
  std::vector<ibv_sge> data = {local.slice(0, 1000), local.slice(2000, 3000)};
  ibv_send_wr read = request(1, IBV_WR_RDMA_READ, data);
  read.wr.rdma.remote_addr = remote.address() + 500;
  read.wr.rdma.rkey = remote.mr().rkey;
  ASSERT_EQ(sender().send(read), 0);
  const ibv_wc done = device_.wait_for(1);
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(done.byte_len, 4000U);
  EXPECT_EQ(local.copy(0, 1000), remote.copy(500, 1000));
  EXPECT_EQ(local.copy(2000, 3000), remote.copy(1500, 3000));
}

TEST_P(transfer, atomics_return_the_old_value_and_update_the_remote_value) {
  buffer local(device_.pd, 8, 13);
  buffer remote(device_.pd, 16, 14);
  remote.set_word(8, 41);
  std::vector<ibv_sge> data = {local.slice(0, 8)};
  ibv_send_wr add = request(1, IBV_WR_ATOMIC_FETCH_AND_ADD, data);
  add.wr.atomic.remote_addr = remote.address() + 8;
  add.wr.atomic.rkey = remote.mr().rkey;
  add.wr.atomic.compare_add = 1;
  ASSERT_EQ(sender().send(add), 0);
  const ibv_wc added = device_.wait_for(1);
  EXPECT_EQ(added.status, IBV_WC_SUCCESS);
  EXPECT_EQ(added.opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(added.byte_len, 8U);
  EXPECT_EQ(local.word(0), 41U);
  EXPECT_EQ(remote.word(8), 42U);

  for (const bool hit : {false, true}) {
    ibv_send_wr swap = add;
    swap.wr_id = 2;
    swap.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    swap.wr.atomic.compare_add = hit ? 42 : 43;
    swap.wr.atomic.swap = 1000;
    ASSERT_EQ(sender().send(swap), 0);
    const ibv_wc swapped = device_.wait_for(2);
    EXPECT_EQ(swapped.status, IBV_WC_SUCCESS);
    EXPECT_EQ(swapped.opcode, IBV_WC_COMP_SWAP);
    EXPECT_EQ(local.word(0), 42U);
    EXPECT_EQ(remote.word(8), hit ? 1000U : 42U);
  }
}

TEST_P(transfer, inline_data_may_be_overwritten_after_the_call) {
  std::vector<std::byte> unregistered = pattern(15, 200);
  buffer sink(device_.pd, 200, 16);
  ASSERT_EQ(receiver().receive(1, {sink.slice(0, 200)}), 0);
  std::vector<ibv_sge> data = {{reinterpret_cast<std::uint64_t>(unregistered.data()), 120, 0},
                               {reinterpret_cast<std::uint64_t>(unregistered.data()) + 120, 80, 0}};
  ibv_send_wr send = request(2, IBV_WR_SEND, data);
  send.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(sender().send(send), 0);
  std::fill(unregistered.begin(), unregistered.end(), std::byte{0});
  EXPECT_EQ(device_.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(device_.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(sink.copy(0, 200), pattern(15, 200));
}

TEST_P(transfer, only_signaled_requests_generate_completions) {
  buffer source(device_.pd, 64, 17);
  buffer sink(device_.pd, 64, 18);
  std::vector<ibv_sge> data = {source.slice(0, 64)};
  ibv_send_wr silent = request(1, IBV_WR_RDMA_WRITE, data);
  silent.wr.rdma.remote_addr = sink.address();
  silent.wr.rdma.rkey = sink.mr().rkey;
  ibv_send_wr loud = silent;
  silent.send_flags = 0;
  silent.next = &loud;
  loud.wr_id = 2;
  ibv_send_wr* refused = nullptr;
  ASSERT_EQ(ibv_post_send(sender().get(), &silent, &refused), 0);
  EXPECT_EQ(device_.wait_for(2).status, IBV_WC_SUCCESS);
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(device_.cq, 1, &none), 0);
}

TEST_P(transfer, completion_of_the_parent_is_refused_to_a_child_of_fork) {
  buffer memory(device_.pd, 64, 23);
  ASSERT_EQ(write_within(sender(), memory, 5), 0);  // it completes before the call returns
  ibv_wc done{};
  EXPECT_EQ(in_child([&] { return -ibv_poll_cq(device_.cq, 1, &done); }), ENODEV);
  EXPECT_EQ(device_.wait_for(5).status, IBV_WC_SUCCESS);
}

TEST_P(transfer, early_sender_waits_for_the_receiver) {
  buffer source(device_.pd, 32, 19);
  buffer sink(device_.pd, 32, 20);
  std::vector<ibv_sge> data = {source.slice(0, 32)};
  ASSERT_EQ(sender().send(request(2, IBV_WR_SEND, data)), 0);
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(device_.cq, 1, &none), 0);
  ASSERT_EQ(receiver().receive(1, {sink.slice(0, 32)}), 0);
  EXPECT_EQ(device_.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(device_.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(sink.copy(0, 32), pattern(19, 32));
}

TEST_P(transfer, hundreds_of_requests_keep_their_order) {
  constexpr std::size_t rounds = 400;
  buffer source(device_.pd, rounds * 8, 21);
  buffer sink(device_.pd, rounds * 8, 22);
  for (std::size_t i = 0; i < rounds; ++i) {
    ASSERT_EQ(receiver().receive(i, {sink.slice(i * 8, 8)}), 0);
    std::vector<ibv_sge> data = {source.slice(i * 8, 8)};
    ibv_send_wr send = request(i, IBV_WR_SEND, data);
    ASSERT_EQ(sender().send(send), 0);
    EXPECT_EQ(device_.wait_for(i).status, IBV_WC_SUCCESS);
    EXPECT_EQ(device_.wait_for(i).status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(sink.copy(0, rounds * 8), pattern(21, rounds * 8));
}

INSTANTIATE_TEST_SUITE_P(shapes, transfer, ::testing::Values(false, true), [](const auto& shape) {
  return shape.param ? "to_itself" : "to_another";
});

}  // namespace
}  // namespace verbena::softdev::testing
