// SPDX-License-Identifier: MIT
// Failures of devices and of the peer during operations over rails.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <latch>
#include <mutex>
#include <optional>
#include <semaphore>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/net/rail_message.hpp"
#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/net/rails.hpp"
#include "tests/unit/net/ranks.hpp"
#include "tests/unit/net/served_peers.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/bringup/frame.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/multi_rail_channel.hpp"
#include "verbena/net/rail.hpp"
#include "verbena/net/rail_memory.hpp"
#include "verbena/net/rail_responder.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

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

/// Posts of requests to the queue pairs of a context fail with EIO.
class refused_posts {
 public:
  explicit refused_posts(const context& of) : native_(of.native()), post_(native_->ops.post_send) {
    native_->ops.post_send = [](ibv_qp*, ibv_send_wr* list, ibv_send_wr** failed) {
      *failed = list;
      return EIO;
    };
  }
  refused_posts(const refused_posts&) = delete;
  refused_posts& operator=(const refused_posts&) = delete;
  ~refused_posts() { native_->ops.post_send = post_; }

 private:
  ibv_context* native_;
  decltype(ibv_context_ops::post_send) post_;
};

TEST(rail_failures, write_is_unknown_if_a_piece_failed_after_a_refused_post) {
  connected_rails both;
  both.faults.inject("fail rem_op_err delivered opcode=rdma_write at=1");
  const refused_posts refused(both.here.ports[1].domain.context());
  const auto failed = both.channel->write(net::rail_source(both.local, 0, rail_block / 2),
                                          both.remote.remote(), test_deadline());
  expect_error(failed, "the device refused the request");
  EXPECT_EQ(failed.delivery(), delivery::unknown);
}

/// Polls of the first completion queue that delivers completions fail from then on.
class breaking_queue {
 public:
  explicit breaking_queue(const context& of) : native_(of.native()) {
    poll_ = native_->ops.poll_cq;
    broken_ = nullptr;
    native_->ops.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
      if (queue == broken_) return -EIO;
      const int polled = poll_(queue, count, out);
      if (polled > 0 && broken_ == nullptr) broken_ = queue;
      return polled;
    };
  }
  breaking_queue(const breaking_queue&) = delete;
  breaking_queue& operator=(const breaking_queue&) = delete;
  ~breaking_queue() { native_->ops.poll_cq = poll_; }

 private:
  static inline ibv_cq* broken_ = nullptr;
  static inline decltype(ibv_context_ops::poll_cq) poll_ = nullptr;
  ibv_context* native_;
};

TEST(rail_failures, rail_fails_if_its_queue_fails_after_successful_completions) {
  connected_rails both;
  const breaking_queue breaking(both.here.ports[0].domain.context());
  for (int each = 0; each < 10; ++each) {
    const auto written = both.channel->write(net::rail_source(both.local, 0, 4096),
                                             both.remote.remote(), test_deadline());
    ASSERT_TRUE(written.has_value()) << each << ": " << written.error().message();
  }
  EXPECT_EQ(both.counters(0).failures, 1U);
  EXPECT_EQ(both.channel->status(0).cause, net::rail_cause::device);
  EXPECT_TRUE(both.becomes(0, net::rail_state::active));
}

TEST(rail_failures, failed_rail_is_held_down_if_another_rail_refused_the_operation) {
  auto options = quick();
  options.hold_down = 10min;
  connected_rails both(options);
  both.faults.inject("fail retry_exc_err opcode=rdma_write at=1");
  const refused_posts refused(both.here.ports[1].domain.context());
  expect_error(both.channel->write(net::rail_source(both.local, 0, rail_block / 2),
                                   both.remote.remote(), test_deadline()),
               "the device refused the request");
  const auto until = deadline::after(500ms);
  while (!until.expired()) both.channel->progress();
  EXPECT_EQ(both.channel->status(0).state, net::rail_state::held_down);
  EXPECT_EQ(both.counters(0).connections, 1U);
}

TEST(rail_failures, error_has_the_cause_of_the_last_failure_of_a_rail) {
  connected_rails both;
  both.faults.down(2);
  ASSERT_TRUE(both.becomes(1, net::rail_state::down));
  both.faults.inject("fail retry_exc_err opcode=rdma_write at=1");
  constexpr const char* first_cause = "RETRY_EXC_ERR";
  expect_error(both.channel->write(net::rail_source(both.local, 0, 64), both.remote.remote(),
                                   deadline::after(200ms)),
               first_cause);
  both.faults.inject("clear-faults");
  ASSERT_TRUE(both.becomes(0, net::rail_state::active));
  const auto constant =
      net::rail_memory::allocate(both.there.ports, 64, access::remote_read).value();
  const auto refused =
      both.channel->write(net::rail_source(both.local, 0, 64), constant.remote(), test_deadline());
  expect_error(refused, "rail 0 (port 1 of soft0): held down, an operation failed (");
  EXPECT_EQ(refused.error().message().find(first_cause), std::string::npos)
      << refused.error().message();
}

/// A peer that completes one message per second, and begins the next one at once.
class slow_sender {
 public:
  static constexpr int messages = net::detail::most_messages_in_turn;

  slow_sender(net::detail::rail_role role, net::detail::rail_message_kind kind) {
    auto [accepted, raw] = peers::accepted_raw();
    stream.emplace(std::move(accepted));
    socket_ = std::move(raw);
    // The version of the messages, and 2 rails.
    const std::array hello{std::byte{1}, std::byte{1}, std::byte{2}, static_cast<std::byte>(role)};
    peers::send_bytes(socket_, bringup::encode_frame(bringup::frame_type::blob, hello));
    thread_ = std::thread([this, kind] { run(kind); });
  }
  slow_sender(const slow_sender&) = delete;
  slow_sender& operator=(const slow_sender&) = delete;
  ~slow_sender() {
    stop_.release();
    thread_.join();
  }
  [[nodiscard]] int completed() const { return completed_; }

  std::optional<bringup::stream> stream;

 private:
  void run(net::detail::rail_message_kind kind) {
    const auto frame =
        bringup::encode_frame(bringup::frame_type::blob,
                              encode(net::detail::rail_message{.kind = kind, .generation = 1}));
    const auto first_bytes = std::span(frame).first(4);
    send(first_bytes);
    while (completed_ < messages && !stop_.try_acquire_for(1s)) {
      std::vector<std::byte> bytes(frame.begin() + 4, frame.end());
      bytes.insert(bytes.end(), first_bytes.begin(), first_bytes.end());
      send(bytes);
      ++completed_;
    }
  }
  void send(std::span<const std::byte> bytes) {
    static_cast<void>(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }

  unique_fd socket_;
  std::atomic<int> completed_{0};
  std::binary_semaphore stop_{0};
  std::thread thread_;
};

TEST(rail_failures, slow_messages_do_not_block_the_active_side) {
  const two_rails here;
  slow_sender peer(net::detail::rail_role::passive, net::detail::rail_message_kind::port);
  expect_error(net::multi_rail_channel::connect(*std::move(peer.stream), here.ports,
                                                deadline::after(500ms), quick()),
               "no rail could be connected");
  EXPECT_LT(peer.completed(), slow_sender::messages - 1);
}

TEST(rail_failures, slow_messages_do_not_block_the_destructor_of_the_responder) {
  const two_rails here;
  slow_sender peer(net::detail::rail_role::active, net::detail::rail_message_kind::fence);
  {
    const auto responder =
        net::rail_responder::accept(*std::move(peer.stream), here.ports, test_deadline()).value();
    const auto until = test_deadline();
    while (peer.completed() == 0 && !until.expired()) std::this_thread::yield();
  }
  EXPECT_LT(peer.completed(), slow_sender::messages - 1);
}

// Together, the slow peers would block the thread for 40 s.
TEST(rail_failures, peers_with_a_part_of_a_message_do_not_delay_others) {
  const two_rails here;
  const two_rails there;
  served_peers by(there);
  std::vector<unique_fd> slow;
  for (int each = 0; each < 8; ++each) slow.push_back(by.add_slow_peer());
  const auto made = by.connect(here, deadline::after(20s));
  EXPECT_TRUE(made) << made.error().message();
}

// If more than 5 s pass between the parts, the connection ends, so the test tries again.
TEST(rail_failures, message_that_arrives_in_parts_is_answered) {
  const two_rails here;
  const two_rails there;
  served_peers by(there);
  const auto answer = bringup::encode_frame(
      bringup::frame_type::blob,
      encode(net::detail::rail_message{.kind = net::detail::rail_message_kind::fenced}));
  bool is_answered = false;
  const auto until = test_deadline();
  while (!is_answered && !until.expired()) {
    const auto peer = by.add_slow_peer();
    // The thread has received the first part when it has connected another peer.
    ASSERT_TRUE(by.connect(here, test_deadline()));
    served_peers::complete(peer);
    static_cast<void>(::shutdown(peer.get(), SHUT_WR));  // fails if the connection has ended
    const auto received = peers::read_until_closed(peer);
    is_answered = !std::ranges::search(received, answer).empty();
  }
  EXPECT_TRUE(is_answered);
}

/// A provider that can refuse to destroy queue pairs, and to move them to the error state. At most
/// one exists at a time.
class persistent_queue_pairs {
 public:
  persistent_queue_pairs() {
    modify_ = soft.verbs.modify_qp;
    destroy_ = soft.verbs.destroy_qp;
    refuses_ = refuses_error_state_ = false;
    soft.verbs.modify_qp.set([](ibv_qp* queue, ibv_qp_attr* to, int mask) {
      const bool is_error = (mask & IBV_QP_STATE) != 0 && to->qp_state == IBV_QPS_ERR;
      return is_error && refuses_error_state_ ? EIO : modify_(queue, to, mask);
    });
    soft.verbs.destroy_qp.set([](ibv_qp* queue) {
      if (!refuses_) return destroy_(queue);
      const std::lock_guard lock(mutex_);
      kept_.insert(queue);
      return EIO;
    });
  }
  persistent_queue_pairs(const persistent_queue_pairs&) = delete;
  persistent_queue_pairs& operator=(const persistent_queue_pairs&) = delete;

  void refuse() { refuses_error_state_ = refuses_ = true; }
  void refuse_only_to_destroy() { refuses_ = true; }
  /// Returns the number of queue pairs that could not be destroyed.
  [[nodiscard]] std::size_t kept() const {
    const std::lock_guard lock(mutex_);
    return kept_.size();
  }
  /// Destroys the queue pairs that could not be destroyed.
  void destroy_all() {
    refuses_error_state_ = refuses_ = false;
    for (ibv_qp* const each : std::exchange(kept_, {})) EXPECT_EQ(destroy_(each), 0);
  }

  provider soft = *soft_provider().value();

 private:
  static inline std::atomic<bool> refuses_ = false;
  static inline std::atomic<bool> refuses_error_state_ = false;
  static inline std::mutex mutex_;
  static inline std::set<ibv_qp*> kept_;
  static inline decltype(sys::verbs_table::modify_qp) modify_;
  static inline decltype(sys::verbs_table::destroy_qp) destroy_;
};

TEST(rail_failures, responder_that_cannot_end_a_queue_pair_ends_the_connection) {
  persistent_queue_pairs persistent;
  connected_rails both(quick(), two_rails(),
                       two_rails(contexts::one_for_each_port, persistent.soft));
  persistent.refuse();
  both.faults.inject("fail retry_exc_err opcode=rdma_write at=1");
  const auto failed = both.channel->write(net::rail_source(both.local, 0, 64), both.remote.remote(),
                                          test_deadline());
  EXPECT_EQ(failed.delivery(), delivery::unknown);
  expect_error(failed, "the queue pair of rail 0 can be neither moved to the error state nor");
  expect_error(failed, "ibv_modify_qp on ");
  expect_error(failed, "(errno 5)");
  EXPECT_TRUE(both.peer->is_connected());  // the peer can still access memory
  both.peer.reset();
  persistent.destroy_all();
}

TEST(rail_failures, responder_that_cannot_end_its_queue_pairs_stays_connected) {
  persistent_queue_pairs persistent;
  connected_rails both(quick(), two_rails(),
                       two_rails(contexts::one_for_each_port, persistent.soft));
  persistent.refuse();
  both.channel.reset();
  const auto until = test_deadline();
  while (persistent.kept() < 2 && !until.expired()) std::this_thread::yield();
  EXPECT_EQ(persistent.kept(), 2U);
  const auto end_of_thread = deadline::after(200ms);
  while (!end_of_thread.expired()) ASSERT_TRUE(both.peer->is_connected());
  both.peer.reset();
  persistent.destroy_all();
}

TEST(rail_failures, responder_is_not_connected_if_its_queue_pairs_are_in_the_error_state) {
  persistent_queue_pairs persistent;
  connected_rails both(quick(), two_rails(),
                       two_rails(contexts::one_for_each_port, persistent.soft));
  persistent.refuse_only_to_destroy();
  both.channel.reset();
  const auto until = test_deadline();
  while (both.peer->is_connected() && !until.expired()) std::this_thread::yield();
  EXPECT_FALSE(both.peer->is_connected());
  EXPECT_EQ(persistent.kept(), 2U);
  both.peer.reset();
  persistent.destroy_all();
}

/// Completion queues of all contexts of this provider are empty after silence(). Records which
/// queue pairs are moved to the error state before the first one is destroyed. At most one exists
/// at a time.
class silent_queues {
 public:
  using clock = deadline::clock;

  silent_queues() {
    modify_ = soft.verbs.modify_qp;
    destroy_ = soft.verbs.destroy_qp;
    instance_ = this;
    soft.verbs.modify_qp.set([](ibv_qp* queue, ibv_qp_attr* to, int mask) {
      const bool is_error = (mask & IBV_QP_STATE) != 0 && to->qp_state == IBV_QPS_ERR;
      if (is_error && instance_->destroyed.empty()) instance_->in_error.insert(queue);
      return modify_(queue, to, mask);
    });
    soft.verbs.destroy_qp.set([](ibv_qp* queue) {
      instance_->destroyed.push_back(clock::now());
      return destroy_(queue);
    });
  }
  silent_queues(const silent_queues&) = delete;
  silent_queues& operator=(const silent_queues&) = delete;

  static void silence(const two_rails& of) {
    for (const auto& each : of.ports)
      each.domain.context().native()->ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; };
  }

  provider soft = *soft_provider().value();
  std::set<ibv_qp*> in_error;
  std::vector<clock::time_point> destroyed;

 private:
  static inline silent_queues* instance_ = nullptr;
  static inline decltype(sys::verbs_table::modify_qp) modify_;
  static inline decltype(sys::verbs_table::destroy_qp) destroy_;
};

TEST(rail_failures, queue_pairs_that_do_not_flush_are_destroyed_after_one_common_time) {
  silent_queues silent;
  connected_rails both(quick(), two_rails(contexts::one_for_each_port, silent.soft), two_rails());
  silent_queues::silence(both.here);
  const auto late = both.channel->write(net::rail_source(both.local), both.remote.remote(),
                                        deadline::after(50ms));
  expect_error(late, "0 of 1048576 bytes are confirmed");
  EXPECT_EQ(late.delivery(), delivery::unknown);
  EXPECT_EQ(silent.in_error.size(), 2U);
  ASSERT_EQ(silent.destroyed.size(), 2U);
  EXPECT_LT(silent.destroyed[1] - silent.destroyed[0], 4s);  // a flush takes 5 s
}

/// A provider with a device that can be removed: it no longer completes requests, refuses all
/// changes of queue pairs, and destroys them, as with RDMAV_ALLOW_DISASSOC_DESTROY. At most one
/// exists at a time.
class removable_device {
 public:
  removable_device() {
    modify_ = soft.verbs.modify_qp;
    removed_ = nullptr;
    soft.verbs.modify_qp.set([](ibv_qp* queue, ibv_qp_attr* to, int mask) {
      return queue->context == removed_ ? EIO : modify_(queue, to, mask);
    });
  }
  removable_device(const removable_device&) = delete;
  removable_device& operator=(const removable_device&) = delete;

  static void remove(const context& of) {
    removed_ = of.native();
    removed_->ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; };
  }

  provider soft = *soft_provider().value();

 private:
  static inline ibv_context* removed_ = nullptr;
  static inline decltype(sys::verbs_table::modify_qp) modify_;
};

TEST(rail_failures, pieces_of_a_removed_device_are_repeated_over_another_rail) {
  removable_device removable;
  connected_rails both(quick(), two_rails(contexts::one_for_each_port, removable.soft),
                       two_rails());
  both.fill(both.local, 3);
  removable_device::remove(both.here.ports[0].domain.context());
  both.faults.inject("when opcode=rdma_write at=2 do port 1 down");
  both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline()).value();
  EXPECT_EQ(both.wrong_words(both.remote, 3), 0U);
  EXPECT_GT(both.counters(0).lost_pieces, 0U);
  EXPECT_EQ(both.channel->status(0).state, net::rail_state::down);
}

}  // namespace
}  // namespace verbena::test
