// SPDX-License-Identifier: MIT
// Shared receive queues through the C interface: creation, events, destruction, another process.
#include <fcntl.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

// A shared receive queue.
class shared_queue {
 public:
  explicit shared_queue(ibv_pd* pd, std::uint32_t max_wr = 8) {
    ibv_srq_init_attr wanted{};
    wanted.attr = {.max_wr = max_wr, .max_sge = 2, .srq_limit = 0};
    srq_ = SOFT(ibv_create_srq)(pd, &wanted);
    if (srq_ == nullptr) throw std::runtime_error(std::strerror(errno));
  }
  shared_queue(const shared_queue&) = delete;
  shared_queue& operator=(const shared_queue&) = delete;
  ~shared_queue() { EXPECT_EQ(SOFT(ibv_destroy_srq)(srq_), 0); }

  [[nodiscard]] ibv_srq* get() const { return srq_; }
  int post(std::uint64_t wr_id, ibv_sge sink) {
    ibv_recv_wr request{};
    request.wr_id = wr_id;
    request.sg_list = &sink;
    request.num_sge = 1;
    ibv_recv_wr* refused = nullptr;
    return ibv_post_srq_recv(srq_, &request, &refused);
  }
  int modify(const ibv_srq_attr& wanted, int mask) {
    ibv_srq_attr attributes = wanted;
    return SOFT(ibv_modify_srq)(srq_, &attributes, mask);
  }
  ibv_srq_attr query() {
    ibv_srq_attr attributes{};
    EXPECT_EQ(SOFT(ibv_query_srq)(srq_, &attributes), 0);
    return attributes;
  }

 private:
  ibv_srq* srq_ = nullptr;
};

int send(queue_pair_handle& from, ibv_sge data, std::uint64_t wr_id = 1) {
  ibv_send_wr request{};
  request.wr_id = wr_id;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &data;
  request.num_sge = 1;
  return from.send(request);
}

class srq : public ::testing::Test {
 protected:
  srq() {
    const int flags = fcntl(device_.context->async_fd, F_GETFL);
    EXPECT_EQ(fcntl(device_.context->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
  }
  // Reads the oldest asynchronous event. Fails the test if no event is pending.
  ibv_async_event take() {
    ibv_async_event event{};
    EXPECT_EQ(SOFT(ibv_get_async_event)(device_.context, &event), 0);
    return event;
  }
  bool has_event() {
    ibv_async_event event{};
    return SOFT(ibv_get_async_event)(device_.context, &event) == 0;
  }

  opened_device device_;
  shared_queue srq_{device_.pd};
  queue_pair_handle sender_{device_};
  queue_pair_handle receiver_{device_, {.srq = srq_.get()}};
  buffer memory_{device_.pd, 128, 1};
};

TEST_F(srq, create_returns_granted_capacity_and_refuses_invalid_sizes) {
  const auto creating = [&](ibv_srq_init_attr_ex wanted) {
    errno = 0;
    ibv_srq* const made = verbs_get_ctx(device_.context)->create_srq_ex(device_.context, &wanted);
    if (made == nullptr) return errno;
    EXPECT_EQ(wanted.attr.max_sge, 1U);
    EXPECT_EQ(made->srq_context, this);
    EXPECT_EQ(SOFT(ibv_dealloc_pd)(device_.pd), EBUSY);
    return SOFT(ibv_destroy_srq)(made);
  };
  ibv_srq_init_attr_ex wanted{};
  wanted.srq_context = this;
  wanted.attr.max_wr = 3;
  EXPECT_EQ(creating(wanted), EINVAL) << "without a protection domain";
  wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  wanted.srq_type = IBV_SRQT_BASIC;
  wanted.pd = device_.pd;
  EXPECT_EQ(creating(wanted), 0);
  wanted.attr.max_wr = 0;
  EXPECT_EQ(creating(wanted), EINVAL);
  wanted.attr.max_wr = 1U << 20U;
  EXPECT_EQ(creating(wanted), EINVAL);
  wanted.attr = {.max_wr = 3, .max_sge = 1000, .srq_limit = 0};
  EXPECT_EQ(creating(wanted), EINVAL);
  wanted.attr.max_sge = 1;
  wanted.srq_type = static_cast<ibv_srq_type>(9);
  EXPECT_EQ(creating(wanted), EINVAL);
  wanted.srq_type = IBV_SRQT_XRC;
  EXPECT_EQ(creating(wanted), EOPNOTSUPP);
  wanted.comp_mask = 1U << 20U;
  EXPECT_EQ(creating(wanted), EINVAL);
  std::uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(srq_.get(), &number), EOPNOTSUPP) << "only XRC queues have a number";
}

// parity: ibverbs-187, semantics-130
TEST_F(srq, queue_pair_with_srq_refuses_post_recv) {
  ibv_qp_attr now{};
  ibv_qp_init_attr created{};
  ASSERT_EQ(SOFT(ibv_query_qp)(receiver_.get(), &now, IBV_QP_CAP, &created), 0);
  EXPECT_EQ(created.srq, srq_.get());
  EXPECT_EQ(created.cap.max_recv_wr, 0U);
  EXPECT_EQ(created.cap.max_recv_sge, 0U);
  EXPECT_EQ(receiver_.get()->srq, srq_.get());
  EXPECT_EQ(SOFT(ibv_destroy_srq)(srq_.get()), EBUSY);
  connect(sender_, receiver_);
  EXPECT_EQ(receiver_.receive(1, {memory_.slice(0, 8)}), EINVAL);
  ibv_recv_wr second{};
  second.num_sge = 3;
  ibv_recv_wr first{};
  first.wr_id = 4;
  first.next = &second;
  ibv_recv_wr* refused = nullptr;
  second.sg_list = first.sg_list = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq_.get(), &first, &refused), EINVAL);
  EXPECT_EQ(refused, &second);
  ASSERT_EQ(send(sender_, memory_.slice(0, 0)), 0);
  for (int i = 0; i < 2; ++i) {
    const ibv_wc done = device_.wait();
    EXPECT_EQ(done.wr_id, done.qp_num == receiver_.get()->qp_num ? 4U : 1U);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  }
}

// parity: semantics-126
TEST_F(srq, limit_and_size_are_modified_and_limit_raises_an_event) {
  connect(sender_, receiver_);
  EXPECT_EQ(srq_.query().max_wr, 8U);
  EXPECT_EQ(srq_.query().max_sge, 2U);
  EXPECT_EQ(srq_.modify({.max_wr = 16, .max_sge = 0, .srq_limit = 99}, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(srq_.query().max_wr, 16U);
  EXPECT_EQ(srq_.query().srq_limit, 0U);
  EXPECT_EQ(srq_.modify({}, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(srq_.modify({.max_wr = 0, .max_sge = 0, .srq_limit = 17}, IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(srq_.modify({}, 1 << 5), EINVAL);
  for (std::uint64_t id = 10; id < 13; ++id) ASSERT_EQ(srq_.post(id, memory_.slice(64, 8)), 0);
  ASSERT_EQ(srq_.modify({.max_wr = 0, .max_sge = 0, .srq_limit = 2}, IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(srq_.query().srq_limit, 2U);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(send(sender_, memory_.slice(0, 8)), 0);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(device_.wait().status, IBV_WC_SUCCESS);
  ibv_async_event event = take();
  while (event.event_type == IBV_EVENT_COMM_EST) {
    SOFT(ibv_ack_async_event)(&event);
    event = take();
  }
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq_.get());
  EXPECT_EQ(srq_.query().srq_limit, 0U);
  EXPECT_FALSE(has_event()) << "the event is raised once";
  SOFT(ibv_ack_async_event)(&event);
}

// parity: semantics-128
TEST_F(srq, last_wqe_event_is_raised_and_destroy_waits_for_its_ack) {
  connect(sender_, receiver_);
  for (std::uint64_t id = 10; id < 12; ++id) ASSERT_EQ(srq_.post(id, memory_.slice(64, 8)), 0);
  auto other =
      std::make_unique<queue_pair_handle>(device_, requested_queue_pair{.srq = srq_.get()});
  other->to_init();
  ASSERT_EQ(other->to_state(IBV_QPS_ERR), 0);
  ibv_async_event event = take();
  ASSERT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(event.element.qp, other->get());
  std::atomic<bool> acknowledged{false};
  std::thread late([&] {
    // If this runs early, the test detects less, but it does not fail wrongly.
    std::this_thread::yield();
    acknowledged = true;
    SOFT(ibv_ack_async_event)(&event);
  });
  other.reset();
  EXPECT_TRUE(acknowledged);
  late.join();
  // The failure of one queue pair does not affect the others.
  ASSERT_EQ(send(sender_, memory_.slice(0, 8)), 0);
  for (int i = 0; i < 2; ++i) {
    const ibv_wc done = device_.wait();
    EXPECT_EQ(done.wr_id, done.qp_num == receiver_.get()->qp_num ? 10U : 1U);
  }
}

TEST_F(srq, shared_queue_can_be_destroyed_after_its_context_closed) {
  ibv_context* const context = SOFT(ibv_open_device)(device_.context->device);
  ibv_pd* const pd = SOFT(ibv_alloc_pd)(context);
  {
    shared_queue orphan(pd);
    EXPECT_EQ(SOFT(ibv_close_device)(context), 0);
    EXPECT_EQ(orphan.post(1, memory_.slice(0, 8)), 0);
    EXPECT_EQ(orphan.query().max_wr, 8U);
  }
  EXPECT_EQ(SOFT(ibv_dealloc_pd)(pd), 0);
}

// This process sends to two queue pairs of a child that share a receive queue. Messages consist of
// many records, and the queue is repeatedly empty.
TEST(srq_processes, senders_in_other_processes_wait_for_receives) {
  constexpr std::size_t bytes = 200'000;
  constexpr std::uint64_t count = 12;
  struct introduction {
    std::array<std::uint32_t, 2> numbers{};
  };
  child_process child([&](stream& parent) {
    opened_device device;
    shared_queue srq(device.pd, 2);
    queue_pair_handle one(device, {.srq = srq.get()});
    queue_pair_handle two(device, {.srq = srq.get()});
    buffer memory(device.pd, bytes, 2);
    const auto peer = parent.take<introduction>();
    parent.put(introduction{{one.get()->qp_num, two.get()->qp_num}});
    one.connect(peer.numbers[0]);
    two.connect(peer.numbers[1]);
    parent.meet();
    std::array<std::uint64_t, 2> of_each{};
    for (std::uint64_t id = 0; id < count; ++id) {
      if (srq.post(id, memory.slice(0, bytes)) != 0) return 1;
      const ibv_wc done = device.wait_for(id);
      if (done.status != IBV_WC_SUCCESS || done.byte_len != bytes) return 2;
      if (memory.copy(0, bytes) != pattern(1, bytes)) return 3;
      ++of_each[done.qp_num == one.get()->qp_num ? 0 : 1];
    }
    parent.meet();
    return of_each[0] == count / 2 && of_each[1] == count / 2 ? 0 : 4;
  });
  opened_device device;
  queue_pair_handle one(device);
  queue_pair_handle two(device);
  buffer memory(device.pd, bytes, 1);
  child.to().put(introduction{{one.get()->qp_num, two.get()->qp_num}});
  const auto peer = child.to().take<introduction>();
  one.connect(peer.numbers[0]);
  two.connect(peer.numbers[1]);
  child.to().meet();
  for (std::uint64_t id = 0; id < count / 2; ++id)
    for (queue_pair_handle* const qp : {&one, &two})
      ASSERT_EQ(send(*qp, memory.slice(0, bytes), id), 0);
  for (std::uint64_t id = 0; id < count; ++id) EXPECT_EQ(device.wait().status, IBV_WC_SUCCESS);
  child.to().meet();
  EXPECT_EQ(child.join(), 0);
}

}  // namespace
}  // namespace verbena::softdev::testing
