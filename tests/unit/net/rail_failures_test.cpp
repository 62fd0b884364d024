// SPDX-License-Identifier: MIT
// Failures of devices and of the peer during operations over rails.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "tests/unit/net/rails.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/net/multi_rail_channel.hpp"
#include "verbena/net/rail_responder.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena::test {
namespace {

/// A provider whose ibv_destroy_qp() waits. At most one exists at a time.
class delayed_destruction {
 public:
  delayed_destruction() {
    destroy_ = soft.verbs.destroy_qp;
    instance_ = this;
    soft.verbs.destroy_qp.set([](ibv_qp* queue) {
      instance_->begun = true;
      instance_->begun.notify_all();
      instance_->permitted.wait();
      return destroy_(queue);
    });
  }
  delayed_destruction(const delayed_destruction&) = delete;
  delayed_destruction& operator=(const delayed_destruction&) = delete;

  provider soft = *soft_provider().value();
  std::atomic<bool> begun{false};
  std::latch permitted{1};

 private:
  static inline delayed_destruction* instance_ = nullptr;
  static inline decltype(sys::verbs_table::destroy_qp) destroy_;
};

TEST(rail_failures, responder_is_connected_until_its_queue_pairs_are_destroyed) {
  delayed_destruction delayed;
  connected_rails both(quick(), two_rails(), two_rails(contexts::one_for_each_port, delayed.soft));
  both.channel.reset();
  delayed.begun.wait(false);
  EXPECT_TRUE(both.peer->is_connected());
  delayed.permitted.count_down();
  const auto until = test_deadline();
  while (both.peer->is_connected() && !until.expired()) std::this_thread::yield();
  EXPECT_FALSE(both.peer->is_connected());
}

}  // namespace
}  // namespace verbena::test
