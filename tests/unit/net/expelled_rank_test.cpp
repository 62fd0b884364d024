// SPDX-License-Identifier: MIT
// A rank that is expelled while the writes of its operation in steps are in flight. All ranks are
// used on the thread of the test.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <latch>
#include <optional>
#include <thread>
#include <utility>

#include "src/net/store_message.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/memory/buffer_pool.hpp"
#include "verbena/net/group_steps.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

/// Passes the messages of group::join() between a rank and its store, then expels the rank.
class expelling_store {
 public:
  explicit expelling_store(const bringup::address& store)
      : thread_([this, store] {
          auto from = listener_.accept(test_deadline()).value();
          auto to = bringup::stream::connect(store, test_deadline()).value();
          constexpr int requests_of_join = 3;  // the hello and two exchanges
          for (int each = 0; each < requests_of_join; ++each) {
            to.send(from.receive(test_deadline()).value(), test_deadline()).value();
            from.send(to.receive(test_deadline()).value(), test_deadline()).value();
          }
          expelled_.wait();
          from.send(encode(net::detail::store_failed{.why = net::detail::store_failure::expelled,
                                                     .ranks = {1}}),
                    test_deadline())
              .value();
          ended_.wait();
        }) {}
  expelling_store(const expelling_store&) = delete;
  expelling_store& operator=(const expelling_store&) = delete;
  ~expelling_store() {
    ended_.count_down();
    thread_.join();
  }

  [[nodiscard]] const bringup::address& address() const { return listener_.local_address(); }
  void expel() { expelled_.count_down(); }

 private:
  bringup::listener listener_ = bringup::listener::open({.host = "127.0.0.1"}).value();
  std::latch expelled_{1};
  std::latch ended_{1};
  std::thread thread_;
};

/// Rank 1 has begun a broadcast whose writes wait for a receive of rank 0, and was expelled.
class expelled_rank : public ::testing::Test {
 protected:
  expelled_rank() {
    for_each_rank(2, [&](std::uint32_t rank) {
      auto who = store_.member(rank, 2);
      if (rank == 1) who.store = proxy_.address();
      ranks_[rank].emplace(who);
    });
    pool_.emplace(buffer_pool::create(here().pd, {}).value());
    blocked_.emplace(here().group[0].post_send(*pool_->take(64)));  // rank 0 posts no receive
    memory_.emplace(here().pd.allocate(64, access::local_write).value());
    broadcast_.emplace(
        here().group.in_steps().broadcast(sink(*memory_, 0, 64), 1, test_deadline()));
    EXPECT_FALSE(broadcast_->progress());
    EXPECT_GT(here().group[0].in_flight(), 1U);
    proxy_.expel();
    const auto until = test_deadline();
    result<void> failed;
    do {
      static_cast<void>(here().group.departed());  // receives the message of the store
      failed = here().group.barrier(test_deadline());
    } while (failed.error().code() != ECONNABORTED && !until.expired());
    expect_error(failed, "the other ranks continue without this one");
    EXPECT_GT(here().group[0].in_flight(), 1U);
  }

  [[nodiscard]] joined_rank& here() { return *ranks_[1]; }

  test_store store_;
  expelling_store proxy_{store_.address()};
  std::array<std::optional<joined_rank>, 2> ranks_;
  std::optional<buffer_pool> pool_;
  std::optional<pending_operation> blocked_;
  std::optional<memory_region> memory_;
  std::optional<steps<void>> broadcast_;
};

TEST_F(expelled_rank, has_no_write_of_its_memory_in_flight_after_the_steps_have_ended) {
  const auto ended = broadcast_->progress();
  ASSERT_TRUE(ended);
  expect_error(*ended, "the other ranks continue without this one");
  EXPECT_EQ(here().group[0].in_flight(), 0U);
}

TEST_F(expelled_rank, has_no_write_of_its_memory_in_flight_after_the_steps_are_destroyed) {
  broadcast_.reset();
  EXPECT_EQ(here().group[0].in_flight(), 0U);
}

}  // namespace
}  // namespace verbena::test
