// SPDX-License-Identifier: MIT
// Operations on several channels and over rails, and the threads of a group and of a store, if an
// allocation fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <latch>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "src/net/channel_access.hpp"
#include "src/net/connection_message.hpp"
#include "src/net/peer_connector.hpp"
#include "src/net/rail_message.hpp"
#include "tests/unit/net/failing_thread.hpp"
#include "tests/unit/net/rails.hpp"
#include "tests/unit/net/ranks.hpp"
#include "tests/unit/net/served_peers.hpp"
#include "verbena/base/log.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/multi_rail_channel.hpp"
#include "verbena/sys/provider.hpp"

#ifdef VERBENA_FAILS_ALLOCATIONS

namespace {
// The next allocation of this number of bytes fails; 0: none.
thread_local std::size_t failing_bytes = 0;
// The allocation with this number fails, counted from now; 0: none.
thread_local int until_failure = 0;

[[nodiscard]] bool must_fail(std::size_t size) noexcept {
  if (until_failure != 0 && --until_failure == 0) return true;
  if (size == failing_bytes && std::exchange(failing_bytes, 0) != 0) return true;
  return verbena::test::failing_thread::must_fail();
}
}  // namespace

// Not inline: g++ would warn about the pairs of `new` and free(), and of malloc() and `delete`.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (!must_fail(size))
    if (void* made = std::malloc(size); made != nullptr) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace verbena::test {
namespace {

// The send to rank 1 is refused, and the allocation that records this fails. The send to rank 2
// waits for a receive.
TEST(exhausted_memory, scatter_leaves_no_operation_in_flight) {
  in_group(3, [](joined_rank& here) {
    if (here.group.rank() != 0) return;
    auto memory = here.pd.allocate(64, access::local_write).value();
    here.group[1].flush();
    std::array<net::peer_send, 2> parts{net::peer_send{.rank = 1, .data = source(memory, 0, 8)},
                                        net::peer_send{.rank = 2, .data = source(memory, 0, 8)}};
    auto& waiting = net::detail::channel_access::core_of(here.group[2]);
    failing_bytes = sizeof(std::uint32_t);  // a list of one rank
    EXPECT_THROW(
        static_cast<void>(here.group.channels().scatter(parts, abort_at(deadline::after(200ms)))),
        std::bad_alloc);
    EXPECT_EQ(failing_bytes, 0U);
    EXPECT_EQ(waiting.in_flight(), 0U);
  });
}

// The result of a flushed operation cannot be recorded: the scope fails nevertheless.
TEST(exhausted_memory, scope_counts_failures_that_it_cannot_record) {
  in_group(2, [](joined_rank& here) {
    if (here.group.rank() != 0) return;
    auto memory = here.pd.allocate(64, access::local_write).value();
    here.group[1].flush();
    const auto outcome = here.group.channels().scope([&](net::multi_scope& scope) {
      std::optional<scoped_operation> flushed(scope[1].send(source(memory, 0, 8)));
      while (scope[1].in_flight() != 0) here.group[1].progress();
      failing_bytes = sizeof(operation_result);
      flushed.reset();
      EXPECT_EQ(std::exchange(failing_bytes, 0), 0U);
    });
    EXPECT_FALSE(outcome);
    EXPECT_TRUE(outcome.body());
    EXPECT_TRUE(outcome.failures().empty());
    EXPECT_EQ(outcome.unrecorded(), 1U);
    EXPECT_NE(outcome.error().message().find("1 more operations failed"), std::string::npos)
        << outcome.error().message();
  });
}

// The list of the ranks to which the failure is reported cannot be allocated.
TEST(exhausted_memory, destroyed_steps_still_fail_the_operation_on_all_ranks) {
  std::latch begun(1);
  in_group(3, [&begun](joined_rank& here) {
    if (here.group.rank() != 0) {
      begun.wait();
      const auto met = here.group.barrier(test_deadline(), net::barrier_algorithm::central);
      testing_support::expect_error(met, "rank 0");  // from rank 0 or from the other rank
      EXPECT_EQ(met.error().code(), ECONNABORTED);
      return;
    }
    {
      const auto central = net::barrier_algorithm::central;  // the others wait for rank 0
      const auto abandoned = here.group.in_steps().barrier(test_deadline(), central);
      begun.count_down();
      failing_bytes = 3 * sizeof(std::uint32_t);
    }
    EXPECT_EQ(failing_bytes, 0U);
    const auto met = here.group.barrier(test_deadline());
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().code(), ECANCELED);
  });
}

// The list of the ranks to which the failure is reported cannot be allocated.
TEST(exhausted_memory, failure_without_memory_is_reported_to_all_ranks) {
  std::latch failed(1);
  in_group(3, [&failed](joined_rank& here) {
    ASSERT_TRUE(here.group.barrier(test_deadline()));
    const auto central = net::barrier_algorithm::central;  // the others wait for rank 0
    if (here.group.rank() == 0) {
      failing_bytes = 3 * sizeof(std::uint32_t);
      EXPECT_THROW(static_cast<void>(here.group.barrier(deadline::after(20ms), central)),
                   std::bad_alloc);
      EXPECT_EQ(failing_bytes, 0U);
      return failed.count_down();
    }
    failed.wait();
    const auto met = here.group.barrier(deadline::after(20s), central);
    testing_support::expect_error(met, "rank 0");  // from rank 0 or from the other rank
    EXPECT_EQ(met.error().code(), ECONNABORTED);
  });
}

// The number for until_failure, counted from the log message that the thread writes about a
// malformed request.
std::atomic<int> allocations_of_thread = 0;

TEST(exhausted_memory, thread_that_accepts_connections_continues) {
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(64).value();
  const auto acceptor =
      net::detail::peer_connector::start({.rank = 0, .size = 2, .host = "127.0.0.1"},
                                         {.domain = pd, .cq = cq, .options = {}, .budget = {}}, {})
          .value();
  const std::array<std::uint32_t, 2> ranks{0, 1};
  acceptor->open(1, ranks);
  set_log_hook(
      [](log_level /*level*/, std::string_view line, void* /*user*/) {
        if (line.find("a request to connect on first use failed") != std::string_view::npos)
          until_failure = allocations_of_thread.load();
      },
      nullptr, log_level::info);
  const auto to = acceptor->contact({});
  const auto queue = pd.create_qp<rc>(cq, cq, {}).value();
  // The request has another epoch, so it is rejected. An accepted request would have a queue pair,
  // whose destructor allocates in checked builds.
  const auto request = net::detail::encode(net::detail::connect_request{
      .token = to.token, .rank = 1, .epoch = 0, .local = queue.endpoint()});
  const auto answer_to = [&](std::span<const std::byte> message) -> result<std::vector<std::byte>> {
    VERBENA_TRY(auto with, bringup::stream::connect(to.acceptor, test_deadline()));
    VERBENA_TRY_VOID(with.send(message, test_deadline()));
    return with.receive(test_deadline());
  };
  for (int count = 1; count <= 60; ++count) {
    allocations_of_thread = count;
    EXPECT_FALSE(answer_to({}));
    bool is_answered = false;
    const auto until = test_deadline();
    while (!is_answered && !until.expired()) is_answered = answer_to(request).has_value();
    ASSERT_TRUE(is_answered) << "allocation " << count;
  }
  set_log_hook(nullptr);
}

/// Two ranks of a group that use each function of the store. After the first failure of a call,
/// they disconnect.
class users_of_store {
 public:
  users_of_store(const test_store& store, const std::string& name) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      auto made = net::store_client::connect(store.member(rank, 2, name), test_deadline());
      if (!check(made)) return;
      ranks_[rank].emplace(*std::move(made));
    }
    const auto part = bytes_of("part");
    if (!check(ranks_[0]->publish("value", part, test_deadline())) ||
        !check(ranks_[1]->find(0, "value", test_deadline())) ||
        !both([&](auto& rank) { return rank.exchange("all", part, test_deadline()); }))
      return;
    // The find request ends because the other rank disconnects.
    std::thread waiting([&] {
      const auto found = ranks_[1]->find(0, "another value", test_deadline());
      EXPECT_FALSE(found);
      if (found.error().code() != ECONNABORTED) check(found);
    });
    ranks_[0].reset();
    waiting.join();
  }

  /// Returns true if each call has succeeded.
  [[nodiscard]] bool have_succeeded() const { return has_succeeded_; }
  /// Returns true if an error states that the store had no memory.
  [[nodiscard]] bool know_the_cause() const { return knows_cause_; }

 private:
  template <class Result>
  bool check(const Result& of) {
    if (of) return true;
    has_succeeded_ = false;
    // A timeout means that the store did not answer.
    EXPECT_NE(of.error().kind(), error_kind::timed_out) << of.error().message();
    if (of.error().message().find("the store had no memory") != std::string::npos)
      knows_cause_ = true;
    return false;
  }
  template <class Call>
  bool both(Call&& call) {
    bool is_first_done = false;
    std::thread first([&] { is_first_done = check(call(*ranks_[0])); });
    const bool is_second_done = check(call(*ranks_[1]));
    first.join();
    return is_first_done && is_second_done;
  }

  std::array<std::optional<net::store_client>, 2> ranks_;
  std::atomic<bool> has_succeeded_ = true;
  std::atomic<bool> knows_cause_ = false;
};

// In each round, another allocation of the thread of the store fails.
TEST(exhausted_memory, store_closes_one_client_and_serves_the_others) {
  const test_store store;
  std::vector<net::store_client> others;
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    others.push_back(connect_client(store.member(rank, 2, "others")));
  int causes = 0;
  int failures = 0;
  bool has_failed = true;
  for (int count = 1; has_failed; ++count) {
    ASSERT_LT(count, 5000);
    failing_thread::arm("verbena-store", count);
    const users_of_store users(store, "group " + std::to_string(count));
    has_failed = failing_thread::disarm();
    EXPECT_TRUE(has_failed || users.have_succeeded());
    causes += users.know_the_cause() ? 1 : 0;
    failures += users.have_succeeded() ? 0 : 1;
    for_each_rank(2, [&](std::uint32_t rank) {
      const auto done = others[rank].exchange("others", bytes_of("x"), test_deadline());
      EXPECT_TRUE(done) << "allocation " << count << ": " << done.error().message();
    });
  }
  EXPECT_GT(causes, 0);
  EXPECT_GT(failures, 0);
}

// While a second peer connects, another allocation of the thread fails in each round. The first
// ones are those of the lists of the thread; a later one ends the connection to the second peer.
TEST(exhausted_memory, thread_of_rails_serves_the_other_peers) {
  const two_rails here;
  const two_rails there;
  auto local = net::rail_memory::allocate(here.ports, 64, rail_access).value();
  auto remote = net::rail_memory::allocate(there.ports, 64, rail_access).value();
  int failures = 0;
  for (int count = 1; count <= 12; ++count) {
    served_peers by(there);
    auto first = by.connect(here, test_deadline()).value();
    failing_thread::arm("verbena-rails", count);
    const auto second = by.connect(here, test_deadline());
    EXPECT_TRUE(failing_thread::disarm()) << "allocation " << count;
    EXPECT_TRUE(second || second.error().kind() != error_kind::timed_out)
        << "allocation " << count << ": " << second.error().message();
    failures += second ? 0 : 1;
    const auto third = by.connect(here, test_deadline());
    EXPECT_TRUE(third) << "allocation " << count << ": " << third.error().message();
    const auto written = first.write(net::rail_source(local), remote.remote(), test_deadline());
    EXPECT_TRUE(written) << "allocation " << count << ": " << written.error().message();
  }
  EXPECT_GT(failures, 0);
}

/// Requests of the second rail do not complete until a queue pair is moved to the error state
/// because of the deadline. Before that, after the queue pair of the first rail has been destroyed,
/// one allocation fails. At most one object exists at a time.
class interrupted_rails {
 public:
  /// 0: the allocation of a message to the peer fails. 1: the first allocation after this message,
  /// and so on. Allocations of the checker of requests in flight must not fail.
  explicit interrupted_rails(int count) {
    modify_ = soft.verbs.modify_qp;
    destroy_ = soft.verbs.destroy_qp;
    count_ = count;
    used_ = {};
    is_destroyed_ = false;
    bytes_of_message_ = encode(net::detail::rail_message{}).size();
    soft.verbs.modify_qp.set([](ibv_qp* queue, ibv_qp_attr* to, int mask) {
      const bool is_error = (mask & IBV_QP_STATE) != 0 && to->qp_state == IBV_QPS_ERR;
      if (is_error && queue->context == silent_) end();
      return modify_(queue, to, mask);
    });
    soft.verbs.destroy_qp.set([](ibv_qp* queue) {
      std::ranges::replace(used_, queue, nullptr);
      const int code = destroy_(queue);
      is_destroyed_ = true;
      if (count_ == 0) failing_bytes = std::exchange(bytes_of_message_, 0);
      return code;
    });
  }
  interrupted_rails(const interrupted_rails&) = delete;
  interrupted_rails& operator=(const interrupted_rails&) = delete;
  ~interrupted_rails() { end(); }

  static void begin(const two_rails& of) {
    silent_ = of.ports[1].domain.context().native();
    poll_ = silent_->ops.poll_cq;
    post_ = silent_->ops.post_send;
    for (const auto& each : of.ports) {
      auto& ops = each.domain.context().native()->ops;
      ops.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
        if (queue->context != silent_) return poll_(queue, count, out);
        if (is_destroyed_) until_failure += std::exchange(count_, 0);
        return 0;
      };
      ops.post_send = [](ibv_qp* queue, ibv_send_wr* list, ibv_send_wr** failed) {
        if (std::ranges::find(used_, queue) == used_.end())
          *std::ranges::find(used_, nullptr) = queue;
        return post_(queue, list, failed);
      };
    }
  }
  static void end() {
    silent_ = nullptr;
    bytes_of_message_ = failing_bytes = 0;
    count_ = until_failure = 0;
  }
  /// Returns the number of queue pairs with posted requests that are not destroyed.
  static std::size_t queue_pairs_in_use() {
    return used_.size() - static_cast<std::size_t>(std::ranges::count(used_, nullptr));
  }

  provider soft = *soft_provider().value();

 private:
  static inline std::array<ibv_qp*, 8> used_{};
  static inline int count_ = 0;
  static inline bool is_destroyed_ = false;
  static inline std::size_t bytes_of_message_ = 0;
  static inline ibv_context* silent_ = nullptr;
  static inline decltype(ibv_context_ops::poll_cq) poll_ = nullptr;
  static inline decltype(ibv_context_ops::post_send) post_ = nullptr;
  static inline decltype(sys::verbs_table::modify_qp) modify_;
  static inline decltype(sys::verbs_table::destroy_qp) destroy_;
};

// The first rail fails while all pieces of the second rail are in flight. In each round, another
// allocation of the fence fails.
TEST(exhausted_memory, write_over_rails_leaves_no_request_in_flight) {
  auto options = quick();
  options.hold_down = 10min;
  options.pieces_in_flight = rail_block / options.piece_bytes / 2;
  for (int round = 0; round < 3; ++round) {
    interrupted_rails interrupted(round);
    connected_rails both(options, two_rails(contexts::one_for_each_port, interrupted.soft),
                         two_rails());
    both.fill(both.local, 1);
    const net::rail_source local(both.local);
    const auto remote = both.remote.remote();
    interrupted_rails::begin(both.here);
    both.faults.inject("fail retry_exc_err opcode=rdma_write at=1");
    EXPECT_THROW(static_cast<void>(both.channel->write(local, remote, test_deadline())),
                 std::bad_alloc)
        << round;
    interrupted_rails::end();
    EXPECT_EQ(interrupted_rails::queue_pairs_in_use(), 0U) << round;
    // A message that was sent or received in part ends the stream.
    both.faults.inject("clear-faults");
    const auto written = both.channel->write(local, remote, test_deadline());
    EXPECT_TRUE(written || both.channel->failure() != nullptr) << written.error().message();
    EXPECT_TRUE(round != 0 || written);
    EXPECT_TRUE(!written || both.wrong_words(both.remote, 1) == 0);
  }
}

}  // namespace
}  // namespace verbena::test

#endif
