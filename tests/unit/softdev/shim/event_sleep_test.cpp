// SPDX-License-Identifier: MIT
// Programs that sleep until a completion event, in two processes. Peers wake the thread of the
// program, and the thread of the device only if necessary: no event and no request may be lost.
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::chrono::seconds time_for_events{15};
constexpr int longest_wait_ms = 20'000;

// A connected queue pair with a channel of its own. Its completion queue serves both directions.
class sleeping_end {
 public:
  explicit sleeping_end(opened_device& device)
      : channel_(SOFT(ibv_create_comp_channel)(device.context)),
        queue_(SOFT(ibv_create_cq)(device.context, 64, nullptr, channel_, 0)),
        qp_(std::make_unique<queue_pair_handle>(
            device, requested_queue_pair{.send_cq = queue_, .recv_cq = queue_})),
        memory_(device.pd, 128) {
    EXPECT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
    arm();
  }
  sleeping_end(const sleeping_end&) = delete;
  sleeping_end& operator=(const sleeping_end&) = delete;
  ~sleeping_end() {
    qp_.reset();
    EXPECT_EQ(SOFT(ibv_destroy_cq)(queue_), 0);
    EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel_), 0);
  }

  // Timeout 0 is infinite: retransmission cannot hide a lost wake-up.
  void connect(stream& other) {
    other.put(qp_->get()->qp_num);
    qp_->connect(other.take<std::uint32_t>(), {.timeout = 0});
    for (int i = 0; i < 8; ++i) post_receive();
  }
  void arm() { EXPECT_EQ(ibv_req_notify_cq(queue_, 0), 0); }
  [[nodiscard]] bool send(bool is_last, bool is_signaled) {
    memory_.set_word(64, is_last ? 1 : 0);
    ibv_sge data = memory_.slice(64, 64);
    ibv_send_wr request{};
    request.wr_id = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = is_signaled ? IBV_SEND_SIGNALED : 0;
    request.sg_list = &data;
    request.num_sge = 1;
    return qp_->send(request) == 0;
  }
  // Takes what has arrived. Returns whether all of it succeeded.
  [[nodiscard]] bool poll() {
    ibv_wc got{};
    while (ibv_poll_cq(queue_, 1, &got) == 1) {
      if (got.status != IBV_WC_SUCCESS) return false;
      if (got.opcode != IBV_WC_RECV) {
        ++sent_;
        continue;
      }
      ++received_;
      was_last_ = memory_.word(0) != 0;
      post_receive();
    }
    return true;
  }
  // Sleeps until an event, arms the queue and takes what has arrived.
  [[nodiscard]] bool wait_for_event() {
    pollfd wanted{channel_->fd, POLLIN, 0};
    if (::poll(&wanted, 1, longest_wait_ms) != 1) return false;
    ibv_cq* ready = nullptr;
    void* cookie = nullptr;
    // There may be no event: the completion that was announced was taken before.
    if (SOFT(ibv_get_cq_event)(channel_, &ready, &cookie) == 0)
      SOFT(ibv_ack_cq_events)(ready, 1);
    else if (errno != EAGAIN)
      return false;
    arm();
    return poll();
  }
  // Sleeps until `count` messages were received, or `count` sends are complete.
  [[nodiscard]] bool sleep_until_received(int count) {
    while (received_ < count)
      if (!wait_for_event()) return false;
    return true;
  }
  [[nodiscard]] bool sleep_until_sent(int count) {
    while (sent_ < count)
      if (!wait_for_event()) return false;
    return true;
  }
  [[nodiscard]] bool was_last() const { return was_last_; }
  [[nodiscard]] int sent() const { return sent_; }

 private:
  void post_receive() { EXPECT_EQ(qp_->receive(2, {memory_.slice(0, 64)}), 0); }

  ibv_comp_channel* channel_;
  ibv_cq* queue_;
  std::unique_ptr<queue_pair_handle> qp_;
  buffer memory_;
  int sent_ = 0;
  int received_ = 0;
  bool was_last_ = false;
};

// Answers messages until the last one. Every fourth send is signaled.
bool answer(sleeping_end& own) {
  for (int round = 1; !own.was_last(); ++round) {
    if (!own.sleep_until_received(round)) return false;
    if (!own.send(false, round % 4 == 0)) return false;
  }
  return true;
}

bool ask(sleeping_end& own, int rounds) {
  const auto end = std::chrono::steady_clock::now() + time_for_events;
  bool is_last = false;
  for (int round = 1; !is_last; ++round) {
    is_last = round == rounds || std::chrono::steady_clock::now() > end;
    if (!own.send(is_last, round % 4 == 0) || !own.sleep_until_received(round)) return false;
  }
  return true;
}

// Runs `work` for each of `count` ends, each on a thread. Returns whether all succeeded.
template <class Work>
bool on_threads(stream& other, int count, Work work) {
  opened_device device;
  std::vector<std::unique_ptr<sleeping_end>> ends;
  for (int i = 0; i < count; ++i) {
    ends.push_back(std::make_unique<sleeping_end>(device));
    ends.back()->connect(other);
  }
  other.meet();
  std::atomic<bool> good = true;
  std::vector<std::thread> threads;
  threads.reserve(ends.size());
  for (auto& each : ends)
    threads.emplace_back([&good, &work, end = each.get()] {
      if (!work(*end)) good.store(false);
    });
  for (std::thread& each : threads) each.join();
  other.meet();
  return good.load();
}

TEST(event_sleep, every_message_wakes_the_sleeping_thread_of_each_channel) {
  constexpr int channels = 3;
  child_process child([](stream& parent) { return on_threads(parent, channels, &answer) ? 0 : 1; });
  EXPECT_TRUE(on_threads(child.to(), channels, [](sleeping_end& own) { return ask(own, 1000); }));
  EXPECT_EQ(child.join(), 0);
}

TEST(event_sleep, completion_of_a_send_wakes_a_thread_that_receives_no_message) {
  child_process child([](stream& parent) {
    const auto receive = [](sleeping_end& own) {
      for (int round = 1; !own.was_last(); ++round)
        if (!own.sleep_until_received(round)) return false;
      return true;
    };
    return on_threads(parent, 1, receive) ? 0 : 1;
  });
  EXPECT_TRUE(on_threads(child.to(), 1, [](sleeping_end& own) {
    const auto end = std::chrono::steady_clock::now() + time_for_events;
    bool is_last = false;
    for (int round = 1; !is_last; ++round) {
      is_last = round == 1000 || std::chrono::steady_clock::now() > end;
      if (!own.send(is_last, true) || !own.sleep_until_sent(round)) return false;
    }
    return true;
  }));
  EXPECT_EQ(child.join(), 0);
}

// Whether the peer wakes the thread of the device depends on the time. So there are many rounds.
TEST(event_sleep, request_is_executed_although_the_program_does_not_read_its_event) {
  constexpr int rounds = 40;
  child_process child([](stream& parent) {
    opened_device device;
    sleeping_end own(device);
    own.connect(parent);
    parent.meet();
    for (int round = 0; round < rounds; ++round) {
      if (!own.sleep_until_received(2 * round + 1)) return 1;
      parent.meet();  // the queue is armed
      parent.meet();  // the next message was executed without this thread
      if (!own.sleep_until_received(2 * round + 2)) return 2;
      parent.meet();
    }
    return 0;
  });
  opened_device device;
  sleeping_end own(device);
  own.connect(child.to());
  child.to().meet();
  const auto executed = [&own](int count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (own.sent() < count && std::chrono::steady_clock::now() < end)
      if (!own.poll()) return false;
    return own.sent() == count;
  };
  for (int round = 0; round < rounds; ++round) {
    ASSERT_TRUE(own.send(false, true));
    ASSERT_TRUE(executed(2 * round + 1));
    child.to().meet();
    ASSERT_TRUE(own.send(false, true));
    ASSERT_TRUE(executed(2 * round + 2)) << "round " << round;
    child.to().meet();
    child.to().meet();
  }
  EXPECT_EQ(child.join(), 0);
}

}  // namespace
}  // namespace verbena::softdev::testing
