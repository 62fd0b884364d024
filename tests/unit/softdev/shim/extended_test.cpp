// SPDX-License-Identifier: MIT
// The extended interfaces: ibv_wr_* and extended completion queues.
#include <thread>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

// An extended completion queue.
class lazy_queue {
 public:
  explicit lazy_queue(opened_device& device, std::uint64_t wc_flags = IBV_WC_STANDARD_FLAGS) {
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = 32;
    attributes.wc_flags = wc_flags;
    cq_ = verbs_get_ctx(device.context)->create_cq_ex(device.context, &attributes);
    if (cq_ == nullptr) throw std::runtime_error(std::strerror(errno));
  }
  lazy_queue(const lazy_queue&) = delete;
  lazy_queue& operator=(const lazy_queue&) = delete;
  ~lazy_queue() { EXPECT_EQ(SOFT(ibv_destroy_cq)(ibv_cq_ex_to_cq(cq_)), 0); }

  [[nodiscard]] ibv_cq_ex* get() const { return cq_; }
  [[nodiscard]] ibv_cq* plain() const { return ibv_cq_ex_to_cq(cq_); }
  // Polls until ibv_start_poll returns a completion.
  void start() {
    ibv_poll_cq_attr none{};
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    int empty = ENOENT;
    while (empty == ENOENT && std::chrono::steady_clock::now() < until)
      empty = ibv_start_poll(cq_, &none);
    ASSERT_EQ(empty, 0);
  }

 private:
  ibv_cq_ex* cq_ = nullptr;
};

class extended : public ::testing::Test {
 protected:
  extended()
      : send_queue_(device_),
        receive_queue_(device_),
        first_(device_, wishes()),
        second_(device_, wishes()) {
    connect(first_, second_);
    qp_ = first_.extended();
  }
  requested_queue_pair wishes() {
    return {.send_cq = send_queue_.plain(), .recv_cq = receive_queue_.plain(), .extended = true};
  }
  void begin(std::uint64_t wr_id, unsigned flags = IBV_SEND_SIGNALED) {
    qp_->wr_id = wr_id;
    qp_->wr_flags = flags;
  }
  // Expects one successful completion of the send queue.
  void expect_sent(std::uint64_t wr_id, ibv_wc_opcode opcode) {
    send_queue_.start();
    EXPECT_EQ(send_queue_.get()->wr_id, wr_id);
    EXPECT_EQ(send_queue_.get()->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_opcode(send_queue_.get()), opcode);
    EXPECT_EQ(ibv_next_poll(send_queue_.get()), ENOENT);
    ibv_end_poll(send_queue_.get());
  }

  opened_device device_;
  lazy_queue send_queue_;
  lazy_queue receive_queue_;
  queue_pair_handle first_;
  queue_pair_handle second_;
  ibv_qp_ex* qp_ = nullptr;
};

TEST_F(extended, queue_pair_without_send_ops_flags_has_no_extended_interface) {
  queue_pair_handle plain(device_);
  EXPECT_EQ(plain.extended(), nullptr);
  EXPECT_NE(first_.extended(), nullptr);
}

TEST_F(extended, batch_of_sends_arrives_and_is_polled_lazily) {
  buffer source(device_.pd, 96, 1);
  buffer sink(device_.pd, 96, 2);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(second_.receive(i, {sink.slice(i * 32, 32)}), 0);
  ibv_wr_start(qp_);
  begin(10, 0);
  ibv_wr_send(qp_);
  ibv_wr_set_sge(qp_, source.mr().lkey, source.address(), 32);
  begin(11, 0);
  ibv_wr_send_imm(qp_, 99);
  const ibv_sge pieces[] = {source.slice(32, 16), source.slice(48, 16)};
  ibv_wr_set_sge_list(qp_, 2, pieces);
  begin(12);
  ibv_wr_send(qp_);
  ibv_wr_set_inline_data(qp_, source.data() + 64, 32);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);

  receive_queue_.start();
  ibv_cq_ex* const queue = receive_queue_.get();
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(queue->wr_id, i);
    EXPECT_EQ(queue->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_opcode(queue), IBV_WC_RECV);
    EXPECT_EQ(ibv_wc_read_byte_len(queue), 32U);
    EXPECT_EQ(ibv_wc_read_qp_num(queue), second_.get()->qp_num);
    EXPECT_EQ(ibv_wc_read_wc_flags(queue), i == 1 ? unsigned{IBV_WC_WITH_IMM} : 0U);
    if (i == 1) {
      EXPECT_EQ(ibv_wc_read_imm_data(queue), 99U);
    }
    EXPECT_EQ(ibv_next_poll(queue), i == 2 ? ENOENT : 0);
  }
  ibv_end_poll(queue);
  expect_sent(12, IBV_WC_SEND);
  EXPECT_EQ(sink.copy(0, 96), pattern(1, 96));
}

TEST_F(extended, child_of_fork_is_refused_also_while_a_thread_of_its_parent_posts) {
  std::byte data[8]{};
  ibv_wr_start(qp_);
  EXPECT_EQ(in_child([&] {
              ibv_wr_start(qp_);
              begin(1);
              ibv_wr_send(qp_);
              ibv_wr_set_inline_data(qp_, data, sizeof data);
              EXPECT_EQ(ibv_wr_complete(qp_), ENODEV);
              ibv_wr_start(qp_);
              ibv_wr_abort(qp_);
              ibv_poll_cq_attr none{};
              EXPECT_EQ(ibv_start_poll(send_queue_.get(), &none), ENODEV);
              return 0;
            }),
            0);
  ibv_wr_abort(qp_);
}

TEST_F(extended, rdma_operations_and_atomics_complete) {
  buffer local(device_.pd, 64, 3);
  buffer remote(device_.pd, 64, 4);
  remote.set_word(32, 5);
  ibv_wr_start(qp_);
  begin(1);
  ibv_wr_rdma_write(qp_, remote.mr().rkey, remote.address());
  ibv_wr_set_sge(qp_, local.mr().lkey, local.address(), 16);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  expect_sent(1, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(remote.copy(0, 16), local.copy(0, 16));

  ibv_wr_start(qp_);
  begin(2);
  ibv_wr_rdma_read(qp_, remote.mr().rkey, remote.address() + 40);
  ibv_wr_set_sge(qp_, local.mr().lkey, local.address() + 20, 24);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  expect_sent(2, IBV_WC_RDMA_READ);
  EXPECT_EQ(local.copy(20, 24), remote.copy(40, 24));

  ibv_wr_start(qp_);
  begin(3);
  ibv_wr_atomic_fetch_add(qp_, remote.mr().rkey, remote.address() + 32, 10);
  ibv_wr_set_sge(qp_, local.mr().lkey, local.address() + 48, 8);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  expect_sent(3, IBV_WC_FETCH_ADD);
  EXPECT_EQ(local.word(48), 5U);

  ibv_wr_start(qp_);
  begin(4);
  ibv_wr_atomic_cmp_swp(qp_, remote.mr().rkey, remote.address() + 32, 15, 77);
  ibv_wr_set_sge(qp_, local.mr().lkey, local.address() + 48, 8);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  expect_sent(4, IBV_WC_COMP_SWAP);
  EXPECT_EQ(local.word(48), 15U);
  EXPECT_EQ(remote.word(32), 77U);
}

TEST_F(extended, write_with_immediate_consumes_a_receive) {
  buffer local(device_.pd, 64, 5);
  buffer remote(device_.pd, 64, 6);
  ASSERT_EQ(second_.receive(9, {}), 0);
  ibv_wr_start(qp_);
  begin(1);
  ibv_wr_rdma_write_imm(qp_, remote.mr().rkey, remote.address(), 1234);
  ibv_data_buf pieces[] = {{local.data(), 24}, {local.data() + 24, 40}};
  ibv_wr_set_inline_data_list(qp_, 2, pieces);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  expect_sent(1, IBV_WC_RDMA_WRITE);
  receive_queue_.start();
  EXPECT_EQ(receive_queue_.get()->wr_id, 9U);
  EXPECT_EQ(ibv_wc_read_opcode(receive_queue_.get()), IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(ibv_wc_read_imm_data(receive_queue_.get()), 1234U);
  ibv_end_poll(receive_queue_.get());
  EXPECT_EQ(remote.copy(0, 64), pattern(5, 64));
}

TEST_F(extended, inline_flag_with_set_sge_copies_the_buffer) {
  buffer source(device_.pd, 4096, 7);
  buffer sink(device_.pd, 4096, 8);
  ASSERT_EQ(second_.receive(1, {sink.slice(0, 4096)}), 0);
  ibv_wr_start(qp_);
  begin(1, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
  ibv_wr_send(qp_);
  ibv_wr_set_sge(qp_, source.mr().lkey, source.address(), 4096);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  expect_sent(1, IBV_WC_SEND);
  EXPECT_EQ(sink.copy(0, 4096), pattern(7, 4096));
}

TEST_F(extended, aborted_batch_posts_no_request) {
  buffer source(device_.pd, 8, 9);
  buffer sink(device_.pd, 8, 10);
  ASSERT_EQ(second_.receive(1, {sink.slice(0, 8)}), 0);
  ibv_wr_start(qp_);
  begin(1);
  ibv_wr_send(qp_);
  ibv_wr_set_sge(qp_, source.mr().lkey, source.address(), 8);
  ibv_wr_abort(qp_);
  ibv_wr_start(qp_);
  begin(2);
  ibv_wr_send(qp_);
  ibv_wr_set_sge(qp_, source.mr().lkey, source.address(), 4);
  ASSERT_EQ(ibv_wr_complete(qp_), 0);
  expect_sent(2, IBV_WC_SEND);
  receive_queue_.start();
  EXPECT_EQ(ibv_wc_read_byte_len(receive_queue_.get()), 4U);
  EXPECT_EQ(ibv_next_poll(receive_queue_.get()), ENOENT);
  ibv_end_poll(receive_queue_.get());
}

TEST_F(extended, batch_longer_than_the_queue_is_refused_as_a_whole) {
  buffer source(device_.pd, 8, 11);
  ibv_wr_start(qp_);
  for (int i = 0; i < 17; ++i) {
    begin(1);
    ibv_wr_send(qp_);
    ibv_wr_set_sge(qp_, source.mr().lkey, source.address(), 8);
  }
  EXPECT_EQ(ibv_wr_complete(qp_), ENOMEM);
  ibv_poll_cq_attr none{};
  EXPECT_EQ(ibv_start_poll(send_queue_.get(), &none), ENOENT);
}

TEST_F(extended, inline_data_beyond_the_limit_is_refused) {
  std::vector<std::byte> bytes(257);
  ibv_wr_start(qp_);
  begin(1);
  ibv_wr_send(qp_);
  ibv_wr_set_inline_data(qp_, bytes.data(), bytes.size());
  EXPECT_EQ(ibv_wr_complete(qp_), EINVAL);
}

TEST_F(extended, operation_outside_send_ops_flags_is_refused) {
  ibv_qp_init_attr_ex attributes{};
  attributes.send_cq = send_queue_.plain();
  attributes.recv_cq = receive_queue_.plain();
  attributes.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  attributes.qp_type = IBV_QPT_RC;
  attributes.pd = device_.pd;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attributes.send_ops_flags = IBV_QP_EX_WITH_SEND;
  const auto create = verbs_get_ctx(device_.context)->create_qp_ex;
  ibv_qp* const qp = create(device_.context, &attributes);
  ASSERT_NE(qp, nullptr);
  ibv_qp_ex* const only_sends = SOFT(ibv_qp_to_qp_ex)(qp);
  ibv_wr_start(only_sends);
  ibv_wr_rdma_write(only_sends, 1, 2);
  EXPECT_EQ(ibv_wr_complete(only_sends), EINVAL);
  ibv_wr_start(only_sends);
  ibv_wr_local_inv(only_sends, 1);
  EXPECT_EQ(ibv_wr_complete(only_sends), EOPNOTSUPP);
  EXPECT_EQ(SOFT(ibv_destroy_qp)(qp), 0);

  attributes.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_LOCAL_INV;
  EXPECT_EQ(create(device_.context, &attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(extended, completions_have_timestamps_if_requested) {
  lazy_queue stamped(
      device_, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
  queue_pair_handle qp(device_, {.send_cq = stamped.plain(), .recv_cq = device_.cq});
  connect(qp, qp);
  const auto clock_ns = [](clockid_t which) {
    timespec now{};
    clock_gettime(which, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(now.tv_nsec);
  };
  const auto ticks = [&] {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(ibv_query_rt_values_ex(device_.context, &values), 0);
    return static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
  };
  const std::uint64_t before = ticks();
  const std::uint64_t wall_before = clock_ns(CLOCK_REALTIME);
  buffer source(device_.pd, 8, 12);
  std::vector<ibv_sge> data = {source.slice(0, 8)};
  ibv_send_wr write{};
  write.opcode = IBV_WR_RDMA_WRITE;
  write.send_flags = IBV_SEND_SIGNALED;
  write.sg_list = data.data();
  write.num_sge = 1;
  write.wr.rdma.remote_addr = source.address();
  write.wr.rdma.rkey = source.mr().rkey;
  ASSERT_EQ(qp.send(write), 0);
  stamped.start();
  const std::uint64_t at = ibv_wc_read_completion_ts(stamped.get());
  EXPECT_GE(at, before);
  EXPECT_LE(at, ticks());
  // The two clocks are read one after the other, which limits the accuracy of the wall clock.
  EXPECT_GE(ibv_wc_read_completion_wallclock_ns(stamped.get()) + 1'000'000, wall_before);
  ibv_end_poll(stamped.get());
}

TEST_F(extended, unsupported_wc_flags_are_refused_at_creation) {
  ibv_cq_init_attr_ex attributes{};
  attributes.cqe = 1;
  attributes.wc_flags = IBV_WC_EX_WITH_CVLAN;
  const auto create = verbs_get_ctx(device_.context)->create_cq_ex;
  EXPECT_EQ(create(device_.context, &attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attributes.wc_flags = 0;
  attributes.comp_mask = 1U << 20U;
  EXPECT_EQ(create(device_.context, &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(extended, nested_poll_is_refused_and_concurrent_poll_waits) {
  buffer source(device_.pd, 8, 13);
  for (std::uint64_t id : {1U, 2U}) {
    ibv_wr_start(qp_);
    begin(id);
    ibv_wr_rdma_write(qp_, source.mr().rkey, source.address());
    ibv_wr_set_sge(qp_, source.mr().lkey, source.address(), 8);
    ASSERT_EQ(ibv_wr_complete(qp_), 0);
  }
  ibv_poll_cq_attr none{};
  send_queue_.start();
  EXPECT_EQ(ibv_start_poll(send_queue_.get(), &none), EBUSY);
  std::uint64_t seen = 0;
  std::thread other([&] {
    send_queue_.start();
    seen = send_queue_.get()->wr_id;
    ibv_end_poll(send_queue_.get());
  });
  EXPECT_EQ(send_queue_.get()->wr_id, 1U);
  ibv_end_poll(send_queue_.get());
  other.join();
  EXPECT_EQ(seen, 2U);
}

}  // namespace
}  // namespace verbena::softdev::testing
