// SPDX-License-Identifier: MIT
// The locked instructions of a message between two processes: the sender, the receiver and the
// acknowledgement. Each costs about 20 cycles, and more if another processor has the cache line.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>

#include "bench/profile/instruction_trace.hpp"
#include "softdev/core/process_barrier.hpp"
#include "tests/unit/softdev/fabric/device_pair.hpp"

namespace verbena::softdev::testing {
namespace {

TEST(locked_instructions, are_counted) {
  std::atomic<int> value = 0;
  const auto counted = bench::count_instructions([] {},
                                                 [&] {
                                                   value.fetch_add(1);
                                                   value.store(2, std::memory_order_seq_cst);
                                                   value.store(3, std::memory_order_relaxed);
                                                   static_cast<void>(::getppid());
                                                 });
  if (!counted) GTEST_SKIP() << "ptrace is not permitted, or this is not x86-64";
  // raise(3), which sets the second mark, has two or three system calls before the mark arrives.
  EXPECT_GE(counted->locked, 2U);
  EXPECT_LE(counted->locked, 3U);
  EXPECT_GE(counted->system_calls, 2U);
}

class message_cost : public ::testing::Test {
 protected:
  // Sends one message of 8 bytes and polls both completions.
  void send_once() {
    static_cast<void>(post_receive(*pair_->b->qp, 2, {to_->slice(0, 8)}));
    static_cast<void>(post(*pair_->a->qp, {.wr_id = 1, .flags = signaled}, {from_->slice(0, 8)}));
    pair_->right.path->progress();
    received_ += pair_->b->received->poll(room_);
    pair_->left.path->progress();
    sent_ += pair_->a->sent->poll(room_);
  }
  void prepare() {
    // With one thread, the C library omits the locks of mutexes and reference counts.
    std::thread([] {
      while (true) ::pause();
    }).detach();
    pair_ = std::make_unique<device_pair>();
    pair_->connect_ends();
    from_ = std::make_unique<shared_buffer>(pair_->left, memory_kind::shareable, 4096, 1);
    to_ = std::make_unique<shared_buffer>(pair_->right, memory_kind::shareable, 4096, 2);
    static_cast<void>(post_receive(*pair_->b->qp, 2, {to_->slice(0, 8)}));
    static_cast<void>(post(*pair_->a->qp, {.wr_id = 1, .flags = signaled}, {from_->slice(0, 8)}));
    static_cast<void>(pair_->wait_for(*pair_->a->sent, 1));
    static_cast<void>(pair_->wait_for(*pair_->b->received, 1));
    pair_->settle();
    // The thread becomes the owner of the locks.
    constexpr std::size_t first_messages = 300;
    for (std::size_t i = 0; i < first_messages; ++i) send_once();
    if (sent_ != first_messages || received_ != first_messages) ::_exit(1);
  }

  std::unique_ptr<device_pair> pair_;
  std::unique_ptr<shared_buffer> from_;
  std::unique_ptr<shared_buffer> to_;
  std::array<completion, 4> room_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
};

TEST_F(message_cost, of_a_send_is_bounded) {
  const auto counted = bench::count_instructions([this] { prepare(); }, [this] { send_once(); });
  if (!counted) GTEST_SKIP() << "ptrace is not permitted, or this is not x86-64";
  RecordProperty("locked", static_cast<int>(counted->locked));
  RecordProperty("all", static_cast<int>(counted->all));
  // Without membarrier(2), each lock costs one, and one belongs to posting the receive request.
  EXPECT_LE(counted->locked, has_process_barrier() ? 4U : 18U);
  EXPECT_LE(counted->system_calls, 3U) << "only those of raise(3), which sets the mark";
}

}  // namespace
}  // namespace verbena::softdev::testing
