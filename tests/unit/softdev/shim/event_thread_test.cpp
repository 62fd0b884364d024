// SPDX-License-Identifier: MIT
// Programs with two threads: one posts, the other waits for events. No work may remain undone
// because a thread found it locked.
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

// The maximum number of rounds, and the time after which no further round starts.
constexpr int most_rounds = 3000;
constexpr std::chrono::seconds enough{30};

// A device with one thread that waits for completion events.
class device_with_event_thread {
 public:
  /// If `period_us` is not 0, an event comes that long after the first completion.
  device_with_event_thread(stream& other, std::uint16_t period_us)
      : channel_(SOFT(ibv_create_comp_channel)(device_.context)) {
    EXPECT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
    queue_ = SOFT(ibv_create_cq)(device_.context, 64, nullptr, channel_, 0);
    if (period_us != 0) {
      ibv_modify_cq_attr moderated{};
      moderated.attr_mask = IBV_CQ_ATTR_MODERATE;
      moderated.moderate = {.cq_count = 1000, .cq_period = period_us};
      EXPECT_EQ(ibv_modify_cq(queue_, &moderated), 0);
    }
    EXPECT_EQ(ibv_req_notify_cq(queue_, 0), 0);
    qp_ = std::make_unique<queue_pair_handle>(
        device_, requested_queue_pair{.send_cq = queue_, .recv_cq = queue_});
    memory_ = std::make_unique<buffer>(device_.pd, 128);
    other.put(qp_->get()->qp_num);
    // Timeout 0 is infinite: retransmission cannot hide a lost wake-up.
    qp_->connect(other.take<std::uint32_t>(), {.timeout = 0});
    for (int i = 0; i < 4; ++i) EXPECT_EQ(qp_->receive(2, {memory_->slice(0, 64)}), 0);
    other.meet();
    thread_ = std::thread([this] { wait_for_events(); });
  }
  device_with_event_thread(const device_with_event_thread&) = delete;
  device_with_event_thread& operator=(const device_with_event_thread&) = delete;
  ~device_with_event_thread() {
    stop_.store(true);
    thread_.join();
    qp_.reset();
    EXPECT_EQ(SOFT(ibv_destroy_cq)(queue_), 0);
    EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel_), 0);
  }

  /// `is_last`: the peer does not wait for another message.
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
  // The received message that was not answered yet.
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
        if (errno != EAGAIN)
          failed_.store(true);  // the event may belong to a completion that was already polled
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

// Answers every message, as rping does. Returns 0, or the number of the failed step.
int answer_all(stream& parent, std::uint16_t period_us) {
  device_with_event_thread own(parent, period_us);
  for (bool is_last = false; !is_last;) {
    if (!own.has_received()) return 1;
    is_last = own.was_last();
    if (!own.send(false)) return 2;
  }
  parent.meet();
  return own.has_failed() ? 3 : 0;
}

void exchange(int rounds, std::uint16_t period_us) {
  child_process child([=](stream& parent) { return answer_all(parent, period_us); });
  {
    device_with_event_thread own(child.to(), period_us);
    const auto end = std::chrono::steady_clock::now() + enough;
    bool is_last = false;
    for (int round = 1; !is_last; ++round) {
      is_last = round == rounds || std::chrono::steady_clock::now() > end;
      ASSERT_TRUE(own.send(is_last));
      ASSERT_TRUE(own.has_received()) << "round " << round;
    }
    child.to().meet();
    EXPECT_FALSE(own.has_failed());
  }
  EXPECT_EQ(child.join(), 0);
}

TEST(event_thread, event_loop_receives_every_message_while_another_thread_posts) {
  exchange(most_rounds, 0);
}

TEST(event_thread, event_loop_receives_every_message_with_moderated_events) { exchange(300, 200); }

}  // namespace
}  // namespace verbena::softdev::testing
