// SPDX-License-Identifier: MIT
// pthread_cancel(3): a thread that waits for events ends, and other calls are not interrupted.
#include <pthread.h>

#include <atomic>
#include <functional>

#include "tests/unit/softdev/shim/cm_device.hpp"
#include "tests/unit/softdev/shim/soft_device.hpp"

namespace verbena::softdev::testing {
namespace {

// Runs `body` on a thread of its own, which is cancelled. Returns whether the thread ended by that.
bool ends_cancelled(const std::function<void()>& body) {
  auto run = body;
  pthread_t thread{};
  const auto start = [](void* function) -> void* {
    (*static_cast<std::function<void()>*>(function))();
    return nullptr;
  };
  EXPECT_EQ(pthread_create(&thread, nullptr, start, &run), 0);
  EXPECT_EQ(pthread_cancel(thread), 0);
  void* outcome = nullptr;
  EXPECT_EQ(pthread_join(thread, &outcome), 0);
  return outcome == PTHREAD_CANCELED;
}

TEST(cancellation, thread_that_waits_for_an_event_ends) {
  opened_device device;
  ibv_comp_channel* const channel = SOFT(ibv_create_comp_channel)(device.context);
  ASSERT_NE(channel, nullptr);
  EXPECT_TRUE(ends_cancelled([&] {
    ibv_cq* queue = nullptr;
    void* cookie = nullptr;
    SOFT(ibv_get_cq_event)(channel, &queue, &cookie);
  }));
  EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel), 0);
  EXPECT_TRUE(ends_cancelled([&] {
    ibv_async_event event{};
    SOFT(ibv_get_async_event)(device.context, &event);
  }));
  const cm_channel connections;
  EXPECT_TRUE(ends_cancelled([&] {
    rdma_cm_event* event = nullptr;
    CM(rdma_get_cm_event)(connections.get(), &event);
  }));
}

TEST(cancellation, thread_that_is_being_cancelled_can_post_and_destroy) {
  opened_device device;
  ibv_comp_channel* const channel = SOFT(ibv_create_comp_channel)(device.context);
  ibv_cq* const queue = SOFT(ibv_create_cq)(device.context, 16, nullptr, channel, 0);
  ASSERT_NE(queue, nullptr);
  buffer memory(device.pd, 16, 1);
  std::atomic<int> posted{-1};
  std::atomic<int> destroyed{-1};
  {
    queue_pair_handle qp(device, requested_queue_pair{.send_cq = queue, .recv_cq = queue});
    connect(qp, qp);
    ASSERT_EQ(ibv_req_notify_cq(queue, 0), 0);
    EXPECT_TRUE(ends_cancelled([&] {
      pthread_cancel(pthread_self());
      ibv_comp_channel* const other = SOFT(ibv_create_comp_channel)(device.context);
      posted = write_within(qp, memory, 1);  // raises an event
      destroyed = SOFT(ibv_destroy_comp_channel)(other);
      pthread_testcancel();
    }));
    EXPECT_EQ(posted, 0);
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(SOFT(ibv_destroy_cq)(queue), 0);
  EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel), 0);
}

}  // namespace
}  // namespace verbena::softdev::testing
