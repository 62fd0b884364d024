// SPDX-License-Identifier: MIT
// Failures of posts, of creation and of completed requests, and their explanations.
#include <set>
#include <string>

#include "tests/unit/softdev/shim/soft_device.hpp"

namespace verbena::softdev::testing {
namespace {

class failures : public ::testing::Test {
 protected:
  ibv_send_wr write_to(const ibv_mr& target, std::uint64_t offset, std::uint32_t length) {
    data_ = source_.slice(0, length);
    ibv_send_wr request{};
    request.wr_id = 5;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &data_;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(target.addr) + offset;
    request.wr.rdma.rkey = target.rkey;
    return request;
  }
  ibv_send_wr message(std::uint32_t length) {
    ibv_send_wr request = write_to(source_.mr(), 0, length);
    request.opcode = IBV_WR_SEND;
    return request;
  }
  static std::string explain(const ibv_wc& done) {
    const auto ask = reinterpret_cast<verbena_soft_explain_function>(find("verbena_soft_explain"));
    std::array<char, 512> text{};
    const std::size_t length =
        ask(done.qp_num, done.wr_id, done.vendor_err, text.data(), text.size());
    EXPECT_EQ(length, std::strlen(text.data()));
    return text.data();
  }

  opened_device device_;
  buffer source_{device_.pd, 4096, 1};
  ibv_sge data_{};
};

TEST_F(failures, post_in_state_that_forbids_posting_is_refused) {
  queue_pair_handle qp(device_);
  EXPECT_EQ(qp.send(message(8)), EINVAL);
  EXPECT_EQ(qp.receive(1, {source_.slice(0, 8)}), EINVAL);
  qp.to_init();
  EXPECT_EQ(qp.receive(1, {source_.slice(0, 8)}), 0);
  EXPECT_EQ(qp.send(message(8)), EINVAL);
  qp.to_rtr(qp.get()->qp_num);
  EXPECT_EQ(qp.send(message(8)), EINVAL);
}

// parity: semantics-133
TEST_F(failures, post_to_full_queue_returns_enomem_and_bad_wr) {
  queue_pair_handle qp(device_, {.cap = {.max_send_wr = 2,
                                         .max_recv_wr = 2,
                                         .max_send_sge = 1,
                                         .max_recv_sge = 1,
                                         .max_inline_data = 0}});
  connect(qp, qp);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr created{};
  ASSERT_EQ(SOFT(ibv_query_qp)(qp.get(), &attributes, IBV_QP_CAP, &created), 0);
  const std::uint32_t granted = created.cap.max_recv_wr;
  std::vector<ibv_recv_wr> requests(granted + 2);
  for (std::size_t i = 0; i + 1 < requests.size(); ++i) requests[i].next = &requests[i + 1];
  ibv_recv_wr* refused = nullptr;
  EXPECT_EQ(ibv_post_recv(qp.get(), requests.data(), &refused), ENOMEM);
  EXPECT_EQ(refused, &requests[granted]);
}

// parity: semantics-134
TEST_F(failures, malformed_request_is_refused_and_earlier_requests_are_posted) {
  queue_pair_handle qp(device_);
  connect(qp, qp);
  buffer sink(device_.pd, 64, 2);
  ibv_sge good_data = source_.slice(0, 8);
  const auto refused_with = [&](const ibv_send_wr& bad) {
    ibv_send_wr second = bad;
    ibv_send_wr first = write_to(sink.mr(), 0, 8);
    data_ = source_.slice(0, 300);
    first.sg_list = &good_data;
    first.next = &second;
    ibv_send_wr* refused = nullptr;
    const int code = ibv_post_send(qp.get(), &first, &refused);
    EXPECT_EQ(refused, &second);
    EXPECT_EQ(device_.wait_for(5).status, IBV_WC_SUCCESS);
    return code;
  };
  ibv_send_wr bad = write_to(sink.mr(), 0, 8);
  bad.num_sge = 5;
  EXPECT_EQ(refused_with(bad), EINVAL);
  bad.num_sge = -1;
  EXPECT_EQ(refused_with(bad), EINVAL);
  bad.num_sge = 1;
  bad.sg_list = nullptr;
  EXPECT_EQ(refused_with(bad), EINVAL);
  bad = write_to(sink.mr(), 0, 8);
  bad.opcode = IBV_WR_LOCAL_INV;
  EXPECT_EQ(refused_with(bad), EINVAL);
  bad = write_to(sink.mr(), 0, 8);
  bad.send_flags = 1U << 20U;
  EXPECT_EQ(refused_with(bad), EINVAL);
  bad = write_to(sink.mr(), 0, 300);
  bad.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(refused_with(bad), EINVAL);
}

// parity: semantics-132
TEST_F(failures, capabilities_beyond_the_device_are_refused) {
  const auto creating = [&](const ibv_qp_init_attr& wanted) {
    ibv_qp_init_attr attributes = wanted;
    errno = 0;
    ibv_qp* const qp = SOFT(ibv_create_qp)(device_.pd, &attributes);
    if (qp == nullptr) return errno;
    EXPECT_GE(attributes.cap.max_send_wr, 1U);
    EXPECT_EQ(SOFT(ibv_destroy_qp)(qp), 0);
    return 0;
  };
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = device_.cq;
  wanted.qp_type = IBV_QPT_RC;
  EXPECT_EQ(creating(wanted), 0);
  wanted.cap.max_send_wr = 16385;
  EXPECT_EQ(creating(wanted), EINVAL);
  wanted.cap.max_send_wr = 1;
  wanted.cap.max_recv_sge = 31;
  EXPECT_EQ(creating(wanted), EINVAL);
  wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = 1U << 20U;
  EXPECT_EQ(creating(wanted), EINVAL);
  wanted.cap.max_inline_data = 0;
  wanted.recv_cq = nullptr;
  EXPECT_EQ(creating(wanted), EINVAL);
  wanted.recv_cq = device_.cq;
  wanted.qp_type = IBV_QPT_RAW_PACKET;
  EXPECT_EQ(creating(wanted), EOPNOTSUPP);
  wanted.qp_type = static_cast<ibv_qp_type>(77);
  EXPECT_EQ(creating(wanted), EINVAL);
}

// parity: semantics-135
TEST_F(failures, queues_in_use_and_impossible_queues_are_refused) {
  {
    queue_pair_handle qp(device_);
    EXPECT_EQ(SOFT(ibv_destroy_cq)(device_.cq), EBUSY);
    EXPECT_EQ(SOFT(ibv_dealloc_pd)(device_.pd), EBUSY);
  }
  for (const int cqe : {0, -1, 5'000'000}) {
    errno = 0;
    EXPECT_EQ(SOFT(ibv_create_cq)(device_.context, cqe, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  errno = 0;
  EXPECT_EQ(
      SOFT(ibv_create_cq)(device_.context, 1, nullptr, nullptr, device_.context->num_comp_vectors),
      nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(failures, modify_without_required_attributes_is_refused) {
  queue_pair_handle qp(device_);
  EXPECT_EQ(qp.to_state(IBV_QPS_INIT), EINVAL);
  EXPECT_EQ(qp.to_state(IBV_QPS_RTS), EINVAL);
  EXPECT_EQ(qp.to_state(IBV_QPS_UNKNOWN), EINVAL);
  EXPECT_EQ(qp.state(), IBV_QPS_RESET);
  ibv_qp_attr attributes{};
  EXPECT_EQ(SOFT(ibv_modify_qp)(qp.get(), &attributes, 1 << 30), EINVAL);
  EXPECT_EQ(SOFT(ibv_modify_qp)(qp.get(), &attributes, IBV_QP_RATE_LIMIT), EOPNOTSUPP);
}

TEST_F(failures, address_of_another_host_is_unreachable) {
  queue_pair_handle qp(device_);
  qp.to_init();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = qp.get()->qp_num;
  attributes.max_dest_rd_atomic = 1;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  // TEST-NET-1 of RFC 5737 has no hosts.
  const unsigned char nobody[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1};
  std::memcpy(attributes.ah_attr.grh.dgid.raw, nobody, sizeof nobody);
  constexpr int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  EXPECT_EQ(SOFT(ibv_modify_qp)(qp.get(), &attributes, mask), ENETUNREACH);
  ASSERT_EQ(SOFT(ibv_query_gid)(device_.context, 1, 1, &attributes.ah_attr.grh.dgid), 0);
  attributes.ah_attr.grh.sgid_index = 63;
  EXPECT_EQ(SOFT(ibv_modify_qp)(qp.get(), &attributes, mask), EINVAL);
  attributes.ah_attr.grh.sgid_index = 1;
  attributes.ah_attr.is_global = 0;
  EXPECT_EQ(SOFT(ibv_modify_qp)(qp.get(), &attributes, mask), EINVAL);
  EXPECT_EQ(qp.state(), IBV_QPS_INIT);
  attributes.ah_attr.is_global = 1;
  EXPECT_EQ(SOFT(ibv_modify_qp)(qp.get(), &attributes, mask), 0);
}

TEST_F(failures, query_returns_the_attributes_that_were_set) {
  queue_pair_handle qp(device_, {.signal_all = 1});
  connect(qp, qp, {.rnr_retry = 5, .min_rnr_timer = 13, .timeout = 14, .retry_count = 6});
  ibv_qp_attr attributes{};
  ibv_qp_init_attr created{};
  ASSERT_EQ(SOFT(ibv_query_qp)(qp.get(), &attributes, IBV_QP_STATE, &created), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attributes.cur_qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attributes.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attributes.dest_qp_num, qp.get()->qp_num);
  EXPECT_EQ(attributes.rnr_retry, 5);
  EXPECT_EQ(attributes.min_rnr_timer, 13);
  EXPECT_EQ(attributes.timeout, 14);
  EXPECT_EQ(attributes.retry_cnt, 6);
  EXPECT_EQ(attributes.max_rd_atomic, 4);
  EXPECT_EQ(attributes.max_dest_rd_atomic, 4);
  EXPECT_EQ(attributes.port_num, 1);
  EXPECT_EQ(attributes.ah_attr.grh.sgid_index, 1);
  EXPECT_EQ(attributes.qp_access_flags,
            unsigned{IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC});
  EXPECT_EQ(created.sq_sig_all, 1);
  EXPECT_EQ(created.send_cq, device_.cq);
  EXPECT_EQ(created.cap.max_send_wr, 16U);
}

TEST_F(failures, refused_write_fails_with_explanation_and_flushes_the_rest) {
  queue_pair_handle qp(device_);
  connect(qp, qp);
  buffer sink(device_.pd, 64, 2);
  ASSERT_EQ(qp.receive(9, {sink.slice(0, 8)}), 0);
  ibv_send_wr too_far = write_to(sink.mr(), 60, 8);
  ibv_send_wr later = write_to(sink.mr(), 0, 8);
  later.wr_id = 6;
  too_far.next = &later;
  ibv_send_wr* refused = nullptr;
  ASSERT_EQ(ibv_post_send(qp.get(), &too_far, &refused), 0);
  std::set<std::uint64_t> flushed;
  for (int i = 0; i < 3; ++i) {
    const ibv_wc done = device_.wait();
    EXPECT_EQ(done.qp_num, qp.get()->qp_num);
    EXPECT_NE(done.vendor_err, 0U);
    EXPECT_NE(explain(done), "");
    if (done.wr_id == 5) {
      EXPECT_EQ(done.status, IBV_WC_REM_ACCESS_ERR);
      EXPECT_FALSE(flushed.contains(6));
    } else {
      EXPECT_EQ(done.status, IBV_WC_WR_FLUSH_ERR);
      flushed.insert(done.wr_id);
    }
  }
  EXPECT_EQ(flushed, (std::set<std::uint64_t>{6, 9}));
  EXPECT_EQ(qp.state(), IBV_QPS_ERR);
  EXPECT_EQ(sink.copy(0, 64), pattern(2, 64));
  // A queue pair in the error state accepts requests and flushes them.
  EXPECT_EQ(qp.send(write_to(sink.mr(), 0, 8)), 0);
  EXPECT_EQ(device_.wait_for(5).status, IBV_WC_WR_FLUSH_ERR);
  // After RESET it can be connected again.
  ASSERT_EQ(qp.to_state(IBV_QPS_RESET), 0);
  connect(qp, qp);
  EXPECT_EQ(qp.send(write_to(sink.mr(), 0, 8)), 0);
  EXPECT_EQ(device_.wait_for(5).status, IBV_WC_SUCCESS);
}

TEST_F(failures, keys_access_flags_and_domains_are_checked) {
  buffer read_only(device_.pd, 64, 3, IBV_ACCESS_REMOTE_READ);
  ibv_pd* const other_pd = SOFT(ibv_alloc_pd)(device_.context);
  {
    buffer foreign(other_pd, 64, 4);
    const auto status_of = [&](const ibv_send_wr& request, const bring_up& how = {}) {
      queue_pair_handle qp(device_);
      connect(qp, qp, how);
      EXPECT_EQ(qp.send(request), 0);
      return device_.wait_for(5).status;
    };
    EXPECT_EQ(status_of(write_to(source_.mr(), 0, 8)), IBV_WC_SUCCESS);
    EXPECT_EQ(status_of(write_to(read_only.mr(), 0, 8)), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(status_of(write_to(foreign.mr(), 0, 8)), IBV_WC_REM_ACCESS_ERR);
    // An operation that the queue pair does not permit is an invalid request.
    EXPECT_EQ(status_of(write_to(source_.mr(), 0, 8), {.access = 0}), IBV_WC_REM_INV_REQ_ERR);
    ibv_send_wr unknown = write_to(source_.mr(), 0, 8);
    unknown.wr.rdma.rkey ^= 0x5555;
    EXPECT_EQ(status_of(unknown), IBV_WC_REM_ACCESS_ERR);
    ibv_send_wr local = write_to(source_.mr(), 0, 8);
    data_.lkey ^= 0x5555;
    EXPECT_EQ(status_of(local), IBV_WC_LOC_PROT_ERR);
  }
  EXPECT_EQ(SOFT(ibv_dealloc_pd)(other_pd), 0);
}

TEST_F(failures, deregistered_region_is_not_accessed) {
  queue_pair_handle qp(device_);
  connect(qp, qp);
  ibv_send_wr request{};
  {
    buffer sink(device_.pd, 64, 5);
    request = write_to(sink.mr(), 0, 8);
  }
  ASSERT_EQ(qp.send(request), 0);
  EXPECT_EQ(device_.wait_for(5).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(failures, receiver_never_ready_fails_with_rnr_retry_exceeded) {
  queue_pair_handle qp(device_);
  connect(qp, qp, {.rnr_retry = 2});
  ASSERT_EQ(qp.send(message(8)), 0);
  const ibv_wc done = device_.wait_for(5);
  EXPECT_EQ(done.status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_NE(explain(done), "");
}

TEST_F(failures, retries_end_without_polling) {
  ibv_comp_channel* const channel = SOFT(ibv_create_comp_channel)(device_.context);
  ibv_cq* const queue = SOFT(ibv_create_cq)(device_.context, 16, nullptr, channel, 0);
  ASSERT_EQ(ibv_req_notify_cq(queue, 0), 0);
  {
    queue_pair_handle qp(device_, {.send_cq = queue});
    connect(qp, qp, {.rnr_retry = 1});
    ASSERT_EQ(qp.send(message(8)), 0);
    ibv_cq* ready = nullptr;
    void* cookie = nullptr;
    ASSERT_EQ(SOFT(ibv_get_cq_event)(channel, &ready, &cookie), 0);
    SOFT(ibv_ack_cq_events)(ready, 1);
    EXPECT_EQ(device_.wait_for(5, queue).status, IBV_WC_RNR_RETRY_EXC_ERR);
  }
  EXPECT_EQ(SOFT(ibv_destroy_cq)(queue), 0);
  EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel), 0);
}

TEST_F(failures, message_longer_than_receive_buffer_fails_on_both_sides) {
  queue_pair_handle sender(device_);
  queue_pair_handle receiver(device_);
  connect(sender, receiver);
  buffer sink(device_.pd, 64, 6);
  ASSERT_EQ(receiver.receive(7, {sink.slice(0, 4)}), 0);
  ASSERT_EQ(sender.send(message(8)), 0);
  for (int i = 0; i < 2; ++i) {
    const ibv_wc done = device_.wait();
    EXPECT_EQ(done.status, done.wr_id == 7 ? IBV_WC_LOC_LEN_ERR : IBV_WC_REM_INV_REQ_ERR);
    EXPECT_NE(explain(done), "");
  }
}

TEST_F(failures, missing_peer_fails_with_retry_exceeded) {
  queue_pair_handle qp(device_);
  connect(qp, qp);
  // Queue pair numbers of one process have the same top bits. This number is unused.
  queue_pair_handle other(device_);
  std::uint32_t nobody = qp.get()->qp_num ^ 0x3fff;
  if (nobody == other.get()->qp_num) nobody ^= 1;
  other.connect(nobody, {.timeout = 1, .retry_count = 1});
  ASSERT_EQ(other.send(message(8)), 0);
  EXPECT_EQ(device_.wait_for(5).status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace verbena::softdev::testing
