// SPDX-License-Identifier: MIT
// Programs of two threads: one posts, the other one only waits for events. Work that a thread
// finds locked may have no other thread to run it.
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <semaphore>
#include <thread>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

// At most so many, and no more once this time has passed: a crowded machine takes minutes for all.
constexpr int most_rounds = 3000;
constexpr std::chrono::seconds enough{30};

// A device whose completions a thread waits for, as programs with one completion channel do.
class awaited_device {
 public:
  explicit awaited_device(stream& other)
      : channel_(SOFT(ibv_create_comp_channel)(device_.context)) {
    EXPECT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
    queue_ = SOFT(ibv_create_cq)(device_.context, 64, nullptr, channel_, 0);
    EXPECT_EQ(ibv_req_notify_cq(queue_, 0), 0);
    qp_ = std::make_unique<queue_pair_handle>(
        device_, queue_pair_wishes{.send_cq = queue_, .recv_cq = queue_});
    memory_ = std::make_unique<buffer>(device_.pd, 128);
    other.put(qp_->get()->qp_num);
    // A full patience: nothing is to be mended by sending again.
    qp_->connect(other.take<std::uint32_t>(), {.timeout = 0});
    for (int i = 0; i < 4; ++i) EXPECT_EQ(qp_->receive(2, {memory_->slice(0, 64)}), 0);
    other.meet();
    thread_ = std::thread([this] { wait_for_events(); });
  }
  awaited_device(const awaited_device&) = delete;
  awaited_device& operator=(const awaited_device&) = delete;
  ~awaited_device() {
    stop_.store(true);
    thread_.join();
    qp_.reset();
    EXPECT_EQ(SOFT(ibv_destroy_cq)(queue_), 0);
    EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel_), 0);
  }

  /// `is_last`: the other side need not wait for another one.
  bool send(bool is_last) {
    memory_->set_word(64, is_last ? 1 : 0);
    ibv_sge data = memory_->slice(64, 64);
    ibv_send_wr request{};
    request.wr_id = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &data;
    request.num_sge = 1;
    return qp_->send(request) == 0;
  }
  bool has_received() { return received_.try_acquire_for(std::chrono::seconds(20)); }
  // Of the message that was received, until it is answered.
  bool was_last() const { return was_last_.load(); }
  bool has_failed() const { return failed_.load(); }

 private:
  void wait_for_events() {
    while (!stop_.load()) {
      pollfd wanted{channel_->fd, POLLIN, 0};
      if (poll(&wanted, 1, 100) != 1) continue;
      ibv_cq* ready = nullptr;
      void* cookie = nullptr;
      if (SOFT(ibv_get_cq_event)(channel_, &ready, &cookie) != 0) {
        if (errno != EAGAIN) failed_.store(true);  // a signal may come for what was seen already
        continue;
      }
      if (ibv_req_notify_cq(queue_, 0) != 0) failed_.store(true);
      drain();
      SOFT(ibv_ack_cq_events)(queue_, 1);
    }
  }
  void drain() {
    ibv_wc got{};
    while (ibv_poll_cq(queue_, 1, &got) == 1) {
      if (got.status != IBV_WC_SUCCESS) failed_.store(true);
      if (got.opcode != IBV_WC_RECV) continue;
      was_last_.store(memory_->word(0) != 0);
      if (qp_->receive(2, {memory_->slice(0, 64)}) != 0) failed_.store(true);
      received_.release();
    }
  }

  opened_device device_;
  ibv_comp_channel* channel_;
  ibv_cq* queue_ = nullptr;
  std::unique_ptr<queue_pair_handle> qp_;
  std::unique_ptr<buffer> memory_;
  std::counting_semaphore<> received_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> was_last_{false};
  std::thread thread_;
};

// Answers every message, as rping does. 0, or what went wrong.
int answer_all(stream& parent) {
  awaited_device own(parent);
  for (bool is_last = false; !is_last;) {
    if (!own.has_received()) return 1;
    is_last = own.was_last();
    if (!own.send(false)) return 2;
  }
  parent.meet();
  return own.has_failed() ? 3 : 0;
}

TEST(event_thread, event_loop_receives_every_message_while_another_thread_posts) {
  child_process child(&answer_all);
  {
    awaited_device own(child.to());
    const auto end = std::chrono::steady_clock::now() + enough;
    bool is_last = false;
    for (int round = 1; !is_last; ++round) {
      is_last = round == most_rounds || std::chrono::steady_clock::now() > end;
      ASSERT_TRUE(own.send(is_last));
      ASSERT_TRUE(own.has_received()) << "round " << round;
    }
    child.to().meet();
    EXPECT_FALSE(own.has_failed());
  }
  EXPECT_EQ(child.join(), 0);
}

}  // namespace
}  // namespace verbena::softdev::testing
