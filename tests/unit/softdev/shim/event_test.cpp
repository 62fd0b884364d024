// SPDX-License-Identifier: MIT
// Completion channels and asynchronous events: descriptors, blocking, acknowledgement, destruction.
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

#include "tests/unit/softdev/shim/soft_device.hpp"

namespace verbena::softdev::testing {
namespace {

void set_nonblocking(int fd) { ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0); }

class event_channel : public ::testing::Test {
 protected:
  event_channel()
      : channel_(SOFT(ibv_create_comp_channel)(device_.context)),
        queue_(SOFT(ibv_create_cq)(device_.context, 16, &cookie_, channel_, 0)),
        qp_(std::make_unique<queue_pair_handle>(
            device_, requested_queue_pair{.send_cq = queue_, .recv_cq = device_.cq})) {
    connect(*qp_, *qp_);
  }
  ~event_channel() override {
    qp_.reset();
    if (queue_ != nullptr) {
      EXPECT_EQ(SOFT(ibv_destroy_cq)(queue_), 0);
    }
    EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel_), 0);
  }
  // Posts a write to the own queue pair that completes on `queue_`.
  void write(std::uint64_t wr_id = 1) { ASSERT_EQ(write_within(*qp_, memory_, wr_id), 0); }
  // Reads one event of `queue_`. Returns 0 or the errno.
  int take() {
    ibv_cq* queue = nullptr;
    void* cookie = nullptr;
    if (SOFT(ibv_get_cq_event)(channel_, &queue, &cookie) != 0) return errno;
    EXPECT_EQ(queue, queue_);
    EXPECT_EQ(cookie, &cookie_);
    return 0;
  }

  opened_device device_;
  buffer memory_{device_.pd, 16, 1};
  int cookie_ = 0;
  ibv_comp_channel* channel_;
  ibv_cq* queue_;
  std::unique_ptr<queue_pair_handle> qp_;
};

TEST_F(event_channel, armed_queue_raises_exactly_one_event) {
  set_nonblocking(channel_->fd);
  write();
  EXPECT_FALSE(readable(channel_->fd));
  EXPECT_EQ(take(), EAGAIN);
  EXPECT_EQ(device_.wait(queue_).status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_req_notify_cq(queue_, 0), 0);
  write();
  write();
  EXPECT_TRUE(readable(channel_->fd));
  EXPECT_EQ(take(), 0);
  EXPECT_FALSE(readable(channel_->fd));
  EXPECT_EQ(take(), EAGAIN);
  SOFT(ibv_ack_cq_events)(queue_, 1);
}

TEST_F(event_channel, blocked_thread_is_woken_by_an_event) {
  ASSERT_EQ(ibv_req_notify_cq(queue_, 0), 0);
  std::atomic<int> taken{-1};
  std::thread waiting([&] { taken = take(); });
  write();
  waiting.join();
  EXPECT_EQ(taken, 0);
  SOFT(ibv_ack_cq_events)(queue_, 1);
  EXPECT_EQ(device_.wait(queue_).status, IBV_WC_SUCCESS);
}

TEST_F(event_channel, solicited_only_arming_ignores_unsolicited_completions) {
  set_nonblocking(channel_->fd);
  ASSERT_EQ(ibv_req_notify_cq(queue_, 1), 0);
  write();
  EXPECT_EQ(take(), EAGAIN);
}

int moderate(ibv_cq* queue, int completions, int period_us) {
  ibv_modify_cq_attr wanted{};
  wanted.attr_mask = IBV_CQ_ATTR_MODERATE;
  wanted.moderate = {static_cast<std::uint16_t>(completions),
                     static_cast<std::uint16_t>(period_us)};
  return ibv_modify_cq(queue, &wanted);
}

TEST_F(event_channel, moderated_queue_raises_one_event_for_several_completions) {
  set_nonblocking(channel_->fd);
  ASSERT_EQ(moderate(queue_, 3, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(queue_, 0), 0);
  for (int i = 0; i < 2; ++i) {
    write();
    EXPECT_FALSE(readable(channel_->fd));
  }
  write();
  EXPECT_TRUE(readable(channel_->fd));
  EXPECT_EQ(take(), 0);
  EXPECT_EQ(take(), EAGAIN);
  SOFT(ibv_ack_cq_events)(queue_, 1);
}

// Nobody calls the device in that time.
TEST_F(event_channel, moderated_event_comes_after_its_period_though_completions_are_missing) {
  constexpr std::chrono::milliseconds period(60);
  ASSERT_EQ(moderate(queue_, 1000, std::chrono::microseconds(period).count()), 0);
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(ibv_req_notify_cq(queue_, 0), 0);
    const auto begin = std::chrono::steady_clock::now();
    write();
    pollfd wanted{channel_->fd, POLLIN, 0};
    ASSERT_EQ(poll(&wanted, 1, 20'000), 1);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, period);
    EXPECT_EQ(take(), 0);
    SOFT(ibv_ack_cq_events)(queue_, 1);
  }
}

TEST_F(event_channel, moderation_has_limits_and_other_changes_are_refused) {
  ibv_device_attr_ex limits{};
  ASSERT_EQ(verbs_get_ctx(device_.context)
                ->query_device_ex(device_.context, nullptr, &limits, sizeof limits),
            0);
  EXPECT_EQ(limits.cq_mod_caps.max_cq_count, 0xffff);
  EXPECT_EQ(limits.cq_mod_caps.max_cq_period, 0xffff);
  EXPECT_EQ(moderate(queue_, 0xffff, 0xffff), 0);
  ibv_modify_cq_attr wanted{};
  EXPECT_EQ(ibv_modify_cq(queue_, &wanted), EINVAL);
  wanted.attr_mask = IBV_CQ_ATTR_MODERATE | IBV_CQ_ATTR_RESERVED;
  EXPECT_EQ(ibv_modify_cq(queue_, &wanted), EINVAL);
}

// parity: semantics-112
TEST_F(event_channel, each_arming_raises_at_most_one_event_in_order) {
  ibv_cq* const other = SOFT(ibv_create_cq)(device_.context, 16, nullptr, channel_, 0);
  ASSERT_NE(other, nullptr);
  {
    queue_pair_handle second(device_, {.send_cq = other, .recv_cq = device_.cq});
    EXPECT_EQ(channel_->refcnt, 2);
    ASSERT_EQ(ibv_req_notify_cq(queue_, 0), 0);
    ASSERT_EQ(ibv_req_notify_cq(other, 0), 0);
    write();
    // Flushed requests complete on the other queue.
    second.to_init();
    second.to_rtr(second.get()->qp_num);
    second.to_rts();
    std::vector<ibv_sge> data = {memory_.slice(0, 8)};
    ASSERT_EQ(second.to_state(IBV_QPS_ERR), 0);
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    request.sg_list = data.data();
    request.num_sge = 1;
    ASSERT_EQ(second.send(request), 0);
    EXPECT_EQ(device_.wait(other).status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(take(), 0);
    ibv_cq* queue = nullptr;
    void* cookie = &cookie_;
    ASSERT_EQ(SOFT(ibv_get_cq_event)(channel_, &queue, &cookie), 0);
    EXPECT_EQ(queue, other);
    EXPECT_EQ(cookie, nullptr);
    SOFT(ibv_ack_cq_events)(other, 1);
    SOFT(ibv_ack_cq_events)(queue_, 1);
  }
  EXPECT_EQ(SOFT(ibv_destroy_cq)(other), 0);
  EXPECT_EQ(channel_->refcnt, 1);
}

TEST_F(event_channel, destroying_a_channel_in_use_returns_ebusy) {
  EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel_), EBUSY);
}

TEST_F(event_channel, destroying_a_queue_drops_its_pending_events) {
  set_nonblocking(channel_->fd);
  ASSERT_EQ(ibv_req_notify_cq(queue_, 0), 0);
  write();
  EXPECT_TRUE(readable(channel_->fd));
  qp_.reset();
  EXPECT_EQ(SOFT(ibv_destroy_cq)(queue_), 0);
  queue_ = nullptr;
  EXPECT_FALSE(readable(channel_->fd));
  EXPECT_EQ(take(), EAGAIN);
}

// parity: semantics-118
TEST_F(event_channel, destroying_a_queue_waits_for_acknowledgements) {
  ASSERT_EQ(ibv_req_notify_cq(queue_, 0), 0);
  write();
  ASSERT_EQ(take(), 0);
  qp_.reset();
  std::atomic<bool> acknowledged{false};
  std::thread other([&] {
    // If this runs early, the test detects less, but it does not fail wrongly.
    std::this_thread::yield();
    acknowledged = true;
    SOFT(ibv_ack_cq_events)(queue_, 1);
  });
  EXPECT_EQ(SOFT(ibv_destroy_cq)(queue_), 0);
  EXPECT_TRUE(acknowledged);
  other.join();
  queue_ = nullptr;
}

void ignore_signal(int /*number*/) {}

// Sends signals to a thread that blocks in ibv_get_cq_event, until the call returns. After 100
// signals calls `later`. Returns the result of the call.
int interrupted(int flags, ibv_comp_channel* channel, const std::function<void()>& later) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = &ignore_signal;
  action.sa_flags = flags;
  sigaction(SIGUSR1, &action, &before);
  std::atomic<int> result{-1};
  std::thread waiting([&] {
    ibv_cq* queue = nullptr;
    void* cookie = nullptr;
    result = SOFT(ibv_get_cq_event)(channel, &queue, &cookie) == 0 ? 0 : errno;
  });
  for (int i = 0; result == -1 && (i < 100 || !later); ++i) {
    pthread_kill(waiting.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  if (later) later();
  waiting.join();
  sigaction(SIGUSR1, &before, nullptr);
  return result;
}

TEST_F(event_channel, blocking_get_event_is_interrupted_by_signals_like_read) {
  ASSERT_EQ(ibv_req_notify_cq(queue_, 0), 0);
  EXPECT_EQ(interrupted(0, channel_, nullptr), EINTR);
  EXPECT_EQ(interrupted(SA_RESTART, channel_, [&] { write(); }), 0);
  SOFT(ibv_ack_cq_events)(queue_, 1);
}

TEST_F(event_channel, idle_context_raises_no_asynchronous_event) {
  set_nonblocking(device_.context->async_fd);
  ibv_async_event none{};
  EXPECT_EQ(SOFT(ibv_get_async_event)(device_.context, &none), -1);
  EXPECT_EQ(errno, EAGAIN);
}

// parity: semantics-119
TEST_F(event_channel, cq_overrun_is_reported_once_and_poll_fails) {
  ibv_cq* const small = SOFT(ibv_create_cq)(device_.context, 1, nullptr, nullptr, 0);
  {
    queue_pair_handle qp(device_, {.send_cq = small, .recv_cq = device_.cq});
    connect(qp, qp);
    for (int i = 0; i < 3; ++i) {
      std::vector<ibv_sge> data = {memory_.slice(0, 8)};
      ibv_send_wr request{};
      request.opcode = IBV_WR_RDMA_WRITE;
      request.send_flags = IBV_SEND_SIGNALED;
      request.sg_list = data.data();
      request.num_sge = 1;
      request.wr.rdma.remote_addr = memory_.address() + 8;
      request.wr.rdma.rkey = memory_.mr().rkey;
      qp.send(request);
    }
    bool seen = false;
    ibv_async_event happened{};
    set_nonblocking(device_.context->async_fd);
    while (SOFT(ibv_get_async_event)(device_.context, &happened) == 0) {
      if (happened.event_type == IBV_EVENT_CQ_ERR) {
        EXPECT_FALSE(seen);
        seen = true;
        EXPECT_EQ(happened.element.cq, small);
      }
      SOFT(ibv_ack_async_event)(&happened);
    }
    EXPECT_TRUE(seen);
    ibv_wc done{};
    EXPECT_EQ(ibv_poll_cq(small, 1, &done), 1);
    EXPECT_LT(ibv_poll_cq(small, 1, &done), 0);
  }
  EXPECT_EQ(SOFT(ibv_destroy_cq)(small), 0);
}

// Returns the next asynchronous event of `kind` without acknowledging it. Acknowledges others.
ibv_async_event wait_for_event(ibv_context* context, ibv_event_type kind) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  ibv_async_event happened{};
  while (std::chrono::steady_clock::now() < until) {
    if (SOFT(ibv_get_async_event)(context, &happened) != 0) {
      std::this_thread::yield();
      continue;
    }
    if (happened.event_type == kind) return happened;
    SOFT(ibv_ack_async_event)(&happened);
  }
  throw std::runtime_error("the event did not come");
}

void write_bytes(queue_pair_handle& from, ibv_sge data, std::uint64_t address, std::uint32_t rkey) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &data;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = rkey;
  EXPECT_EQ(from.send(request), 0);
}

// parity: semantics-73
TEST_F(event_channel, sq_draining_is_set_until_sq_drained) {
  set_nonblocking(device_.context->async_fd);
  queue_pair_handle sender(device_);
  queue_pair_handle target(device_);
  connect(sender, target);
  const auto draining = [&] {
    ibv_qp_attr now{};
    ibv_qp_init_attr created{};
    EXPECT_EQ(SOFT(ibv_query_qp)(sender.get(), &now, IBV_QP_STATE, &created), 0);
    return now.sq_draining;
  };
  std::vector<ibv_sge> data = {memory_.slice(0, 8)};
  ibv_send_wr request{};
  request.wr_id = 4;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = data.data();
  request.num_sge = 1;
  ASSERT_EQ(sender.send(request), 0);  // waits for a receive request
  EXPECT_EQ(draining(), 0);
  ibv_qp_attr drain{};
  drain.qp_state = IBV_QPS_SQD;
  drain.en_sqd_async_notify = 1;
  ASSERT_EQ(SOFT(ibv_modify_qp)(sender.get(), &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
            0);
  EXPECT_EQ(draining(), 1);
  ASSERT_EQ(target.receive(5, {memory_.slice(8, 8)}), 0);
  EXPECT_EQ(device_.wait_for(5).status, IBV_WC_SUCCESS);
  EXPECT_EQ(device_.wait_for(4).status, IBV_WC_SUCCESS);
  ibv_async_event drained = wait_for_event(device_.context, IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(drained.element.qp, sender.get());
  SOFT(ibv_ack_async_event)(&drained);
  EXPECT_EQ(draining(), 0);
}

// parity: semantics-121
TEST_F(event_channel, asynchronous_event_names_its_queue_pair) {
  set_nonblocking(device_.context->async_fd);
  ibv_cq* const small = SOFT(ibv_create_cq)(device_.context, 1, nullptr, nullptr, 0);
  const auto write = [&](queue_pair_handle& from, std::uint32_t rkey) {
    write_bytes(from, memory_.slice(0, 8), memory_.address() + 8, rkey);
  };
  const std::uint32_t rkey = memory_.mr().rkey;
  using handle = queue_pair_handle;
  const struct {
    ibv_event_type kind;
    ibv_cq* send_cq;
    std::function<void(handle& sender, handle& target)> inject_event;
  } rows[] = {{IBV_EVENT_COMM_EST, nullptr,
               [&](handle& sender, handle& target) {
                 target.to_init();
                 target.to_rtr(sender.get()->qp_num);
                 sender.connect(target.get()->qp_num);
                 write(sender, rkey);
               }},
              {IBV_EVENT_SQ_DRAINED, nullptr,
               [&](handle& sender, handle& target) {
                 connect(sender, target);
                 ibv_qp_attr drain{};
                 drain.qp_state = IBV_QPS_SQD;
                 drain.en_sqd_async_notify = 1;
                 EXPECT_EQ(SOFT(ibv_modify_qp)(target.get(), &drain,
                                               IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
                           0);
               }},
              {IBV_EVENT_QP_ACCESS_ERR, nullptr,
               [&](handle& sender, handle& target) {
                 connect(sender, target);
                 write(sender, rkey ^ 0x7f00U);  // an unknown rkey
               }},
              {IBV_EVENT_QP_REQ_ERR, nullptr,
               [&](handle& sender, handle& target) {
                 connect(sender, target, {.access = 0});
                 write(sender, rkey);
               }},
              {IBV_EVENT_QP_FATAL, small, [&](handle& sender, handle& target) {
                 connect(sender, target);
                 for (int i = 0; i < 3; ++i) write(target, rkey);
               }}};
  for (const auto& [kind, send_cq, provoke] : rows) {
    SCOPED_TRACE(kind);
    queue_pair_handle sender(device_);
    auto target = std::make_unique<queue_pair_handle>(
        device_, requested_queue_pair{.send_cq = send_cq != nullptr ? send_cq : device_.cq});
    provoke(sender, *target);
    ibv_async_event happened = wait_for_event(device_.context, kind);
    EXPECT_EQ(happened.element.qp, target->get());
    // Destroying the queue pair waits for exactly one acknowledgement.
    std::atomic<bool> acknowledged{false};
    std::thread other([&] {
      std::this_thread::yield();
      acknowledged = true;
      SOFT(ibv_ack_async_event)(&happened);
    });
    target.reset();
    EXPECT_TRUE(acknowledged);
    other.join();
  }
  EXPECT_EQ(SOFT(ibv_destroy_cq)(small), 0);
}

// The handler of an event uses the queue pair, while another thread waits in ibv_destroy_qp() for
// the acknowledgement.
TEST_F(event_channel, handle_that_is_being_destroyed_changes_no_other_queue_pair) {
  set_nonblocking(device_.context->async_fd);
  auto destroyed = std::make_unique<queue_pair_handle>(device_);
  ibv_qp* const handle = destroyed->get();
  queue_pair_handle sender(device_);
  connect(sender, *destroyed);
  // The key is unknown, which raises an event of the target.
  write_bytes(sender, memory_.slice(0, 8), memory_.address() + 8, memory_.mr().rkey ^ 0x7f00U);
  ibv_async_event happened = wait_for_event(device_.context, IBV_EVENT_QP_ACCESS_ERR);
  ASSERT_EQ(happened.element.qp, handle);
  std::thread destroyer([&] { destroyed.reset(); });
  ibv_qp_attr attributes{};
  ibv_qp_init_attr created{};
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (SOFT(ibv_query_qp)(handle, &attributes, IBV_QP_STATE, &created) == 0 &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  queue_pair_handle other(device_);  // may get the memory of the destroyed one
  other.to_init();
  attributes.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(SOFT(ibv_modify_qp)(handle, &attributes, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(SOFT(ibv_query_qp)(other.get(), &attributes, IBV_QP_STATE, &created), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_INIT);
  SOFT(ibv_ack_async_event)(&happened);
  destroyer.join();
}

TEST_F(event_channel, requests_for_a_queue_pair_that_is_being_destroyed_are_refused) {
  set_nonblocking(device_.context->async_fd);
  auto destroyed = std::make_unique<queue_pair_handle>(device_);
  ibv_qp* const handle = destroyed->get();
  queue_pair_handle sender(device_);
  connect(sender, *destroyed);
  write_bytes(sender, memory_.slice(0, 8), memory_.address() + 8, memory_.mr().rkey ^ 0x7f00U);
  ibv_async_event happened = wait_for_event(device_.context, IBV_EVENT_QP_ACCESS_ERR);
  ASSERT_EQ(happened.element.qp, handle);
  std::thread destroyer([&] { destroyed.reset(); });
  ibv_sge data = memory_.slice(0, 8);
  ibv_send_wr send{.sg_list = &data, .num_sge = 1, .opcode = IBV_WR_SEND};
  ibv_recv_wr receive{.sg_list = &data, .num_sge = 1};
  ibv_send_wr* refused_send = nullptr;
  ibv_recv_wr* refused_receive = nullptr;
  // Requests that come before the other thread are accepted.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int code = 0;
  while (code != EINVAL && std::chrono::steady_clock::now() < until) {
    code = ibv_post_send(handle, &send, &refused_send);
    std::this_thread::yield();
  }
  EXPECT_EQ(code, EINVAL);
  EXPECT_EQ(refused_send, &send);
  EXPECT_EQ(ibv_post_recv(handle, &receive, &refused_receive), EINVAL);
  EXPECT_EQ(refused_receive, &receive);
  SOFT(ibv_ack_async_event)(&happened);
  destroyer.join();
}

// parity: semantics-125
TEST_F(event_channel, destroying_a_queue_pair_drops_its_asynchronous_events) {
  set_nonblocking(device_.context->async_fd);
  buffer sink(device_.pd, 8, 2);
  {
    queue_pair_handle qp(device_);
    qp.to_init();
    ASSERT_EQ(qp.receive(1, {sink.slice(0, 8)}), 0);
    qp.to_rtr(qp.get()->qp_num);
    // The first message at a queue pair in RTR raises COMM_EST.
    queue_pair_handle sender(device_);
    sender.connect(qp.get()->qp_num);
  }
  ibv_async_event none{};
  EXPECT_EQ(SOFT(ibv_get_async_event)(device_.context, &none), -1);
  EXPECT_EQ(errno, EAGAIN);
}

}  // namespace
}  // namespace verbena::softdev::testing
