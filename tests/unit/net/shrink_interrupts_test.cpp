// SPDX-License-Identifier: MIT
// Barriers and collective operations that wait for a rank that calls shrink(), or whose earlier
// operation failed. The ranks are threads of the test.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <variant>

#include "src/bringup/socket.hpp"
#include "src/net/store_message.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/bringup/frame.hpp"

namespace verbena::test {
namespace {

using net::barrier_algorithm;
using testing_support::expect_error;

// Fails if an operation ends at its deadline instead of at once. No operation needs this time.
constexpr auto long_before_the_deadline = 20s;

/// Performs an operation of all members on memory of 96 KiB.
using operation = std::function<result<void>(joined_rank& here, memory_region& memory)>;
struct interrupted_case {
  const char* name;
  operation call;
};

result<void> barrier_in_steps(joined_rank& here) {
  async::engine engine = async::engine::create(here.device).value();
  return engine.run([](auto& on, auto& of) -> async::task<result<void>> {
    co_return co_await on.complete(of.group.in_steps().barrier(test_deadline()));
  }(engine, here));
}

class interrupted : public ::testing::TestWithParam<interrupted_case> {};
INSTANTIATE_TEST_SUITE_P(
    all, interrupted,
    ::testing::Values(
        interrupted_case{
            "dissemination",
            [](joined_rank& here, memory_region&) { return here.group.barrier(test_deadline()); }},
        interrupted_case{"binary_tree",
                         [](joined_rank& here, memory_region&) {
                           return here.group.barrier(test_deadline(),
                                                     barrier_algorithm::binary_tree);
                         }},
        interrupted_case{"central",
                         [](joined_rank& here, memory_region&) {
                           return here.group.barrier(test_deadline(), barrier_algorithm::central);
                         }},
        interrupted_case{"small_all_reduce",
                         [](joined_rank& here, memory_region& memory) {
                           return here.group.all_reduce<float>(sink(memory, 0, 64), std::plus<>(),
                                                               test_deadline());
                         }},
        interrupted_case{"large_all_reduce",
                         [](joined_rank& here, memory_region& memory) {
                           return here.group.all_reduce<float>(sink(memory), std::plus<>(),
                                                               test_deadline());
                         }},
        interrupted_case{"all_gather",
                         [](joined_rank& here, memory_region& memory) {
                           return here.group.all_gather(sink(memory), test_deadline());
                         }},
        interrupted_case{"broadcast_from_the_rank_in_shrink",
                         [](joined_rank& here, memory_region& memory) {
                           return here.group.broadcast(sink(memory), 2, test_deadline());
                         }},
        interrupted_case{"barrier_in_steps",
                         [](joined_rank& here, memory_region&) { return barrier_in_steps(here); }}),
    [](const auto& of) { return std::string(of.param.name); });

TEST_P(interrupted, operation_fails_at_once_and_names_the_rank_that_called_shrink) {
  in_group(4, [](joined_rank& here) {
    auto memory = here.pd.allocate(96 * 1024, access::local_write).value();
    if (here.group.rank() != 2) {
      const auto began = deadline::clock::now();
      const auto failed = GetParam().call(here, memory);
      EXPECT_LT(deadline::clock::now() - began, long_before_the_deadline);
      expect_error(failed, "rank 2 called shrink()");
      expect_error(failed, "call shrink() too");
      EXPECT_EQ(failed.error().code(), ECONNABORTED);
    }
    here.group.shrink(test_deadline()).value();
    EXPECT_EQ(members_of(here.group), (rank_list{0, 1, 2, 3}));
    expect_works(here);
  });
}

TEST(shrink, interrupts_members_over_channels_that_were_connected_on_first_use) {
  const auto began = deadline::clock::now();
  in_group(3,
           [](joined_rank& here) {
             here.group.barrier(test_deadline()).value();
             // Without the exchange, a failure of the second barrier could end the first barrier of
             // a slow rank.
             here.group.exchange("all", bytes_of("x"), test_deadline()).value();
             if (here.group.rank() != 1)
               expect_error(here.group.barrier(test_deadline()), "rank 1 called shrink()");
             here.group.shrink(test_deadline()).value();
             expect_works(here);
           },
           {.connect = net::connect_mode::on_first_use});
  EXPECT_LT(deadline::clock::now() - began, 2 * long_before_the_deadline);
}

// Ranks 0 and 1 fail in an operation of their own. Rank 2 waits for rank 0 in another one.
TEST(shrink, interrupts_members_that_were_not_in_the_failed_operation) {
  const test_store store;
  for_each_rank(4, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 4));
    const auto began = deadline::clock::now();
    if (rank == 3) return;
    if (rank == 2)
      expect_error(here.group.barrier(rank_list{0, 2}, test_deadline()), "call shrink()");
    else
      expect_error(here.group.barrier(rank_list{0, 1, 3}, test_deadline()), "rank 3");
    EXPECT_LT(deadline::clock::now() - began, long_before_the_deadline);
    here.group.shrink(test_deadline()).value();
    EXPECT_EQ(members_of(here.group), (rank_list{0, 1, 2}));
    expect_works(here);
  });
}

// The operation of ranks 0 and 1 fails, and neither calls shrink(). Rank 2 waits for rank 0.
TEST(failed_operation, ends_operations_of_other_members_that_wait_for_its_ranks) {
  const test_store store;
  std::atomic<bool> is_over = false;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 3));
    if (rank == 0)
      expect_error(here.group.barrier(rank_list{0, 1}, deadline::after(300ms)),
                   "rank 1 had not called barrier()");
    if (rank == 2) {
      const auto began = deadline::clock::now();
      const auto failed = here.group.barrier(rank_list{0, 2}, test_deadline());
      EXPECT_LT(deadline::clock::now() - began, long_before_the_deadline);
      expect_error(failed,
                   "rank 0 takes no part in a barrier, because another barrier or collective "
                   "operation of rank 0 failed; call shrink()");
      is_over = true;
    }
    while (!is_over) std::this_thread::yield();
    here.group.shrink(test_deadline()).value();
    expect_works(here);
  });
}

// Rank 0 has sent its part of the broadcast before it calls shrink(). Rank 1 shows that the call
// has reached the other ranks.
TEST(shrink, does_not_interrupt_an_operation_that_has_all_its_messages) {
  std::atomic<bool> is_announced = false;
  in_group(3, [&](joined_rank& here) {
    auto memory = here.pd.allocate(64, access::local_write).value();
    const std::uint32_t rank = here.group.rank();
    while (rank == 2 && !is_announced) std::this_thread::yield();
    EXPECT_TRUE(here.group.broadcast(sink(memory), 0, test_deadline()));
    if (rank == 1) {
      expect_error(here.group.barrier(rank_list{0, 1}, test_deadline()),
                   "rank 0 called shrink() before the end of a barrier; call shrink() too");
      is_announced = true;
    }
    here.group.shrink(test_deadline()).value();
    expect_works(here);
  });
}

// The call of rank 0 fails. Afterwards, the group works as before.
TEST(shrink, that_fails_at_its_deadline_interrupts_no_later_operation) {
  const test_store store;
  std::atomic<int> calls = 0;
  for_each_rank(3, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, 3));
    for (int round = 1; round <= 3; ++round) {
      if (rank == 0) {
        expect_error(here.group.shrink(deadline::after(3s)), "had not called shrink()");
        calls = round;
      }
      while (calls < round) std::this_thread::yield();
      expect_works(here);
      here.group.exchange("round", bytes_of("x"), test_deadline()).value();
    }
  });
}

/// Forwards the bytes between one client and a store until stop().
class relay {
 public:
  explicit relay(const bringup::address& store)
      : server_(bringup::detail::connect_to(store, test_deadline(), {}).wait().value()) {}
  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;
  ~relay() {
    has_ended_ = true;
    thread_.join();
  }
  [[nodiscard]] bringup::address address() const {
    return bringup::detail::local_address_of(listener_.get()).value();
  }
  /// Forwards no bytes until resume().
  void stop() { is_stopped_ = true; }
  /// Calls stop() after the next agreement that the client sends.
  void stop_after_agreement() { stops_after_agreement_ = true; }
  void resume() { is_stopped_ = false; }

 private:
  void run() {
    unique_fd client;
    while (!has_ended_ && !client) {
      pollfd event{.fd = listener_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&event, 1, 10) > 0)
        client = unique_fd(::accept(listener_.get(), nullptr, nullptr));
    }
    std::array<pollfd, 2> ends{{{.fd = client.get(), .events = POLLIN, .revents = 0},
                                {.fd = server_.get(), .events = POLLIN, .revents = 0}}};
    while (!has_ended_) {
      if (::poll(ends.data(), 2, 10) <= 0 || is_stopped_) continue;
      for (std::size_t from = 0; from < 2; ++from) {
        std::array<std::byte, 65536> bytes;
        if (ends.at(from).revents == 0) continue;
        const auto count = ::recv(ends.at(from).fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (count == 0) return;
        if (count <= 0) continue;
        EXPECT_EQ(::send(ends.at(1 - from).fd, bytes.data(), static_cast<std::size_t>(count),
                         MSG_NOSIGNAL),
                  count);
        if (from == 0 && is_agreement(std::span(bytes).first(static_cast<std::size_t>(count))) &&
            stops_after_agreement_.exchange(false))
          is_stopped_ = true;
      }
    }
  }
  /// Returns true if the frame is an agreement. Requests of a rank are short, so they arrive in one
  /// part.
  static bool is_agreement(std::span<const std::byte> frame) {
    if (frame.size() <= bringup::frame_header_bytes) return false;
    const auto request = net::detail::decode_request(frame.subspan(bringup::frame_header_bytes));
    return request && std::holds_alternative<net::detail::store_agreement>(*request);
  }

  std::atomic<bool> is_stopped_ = false;
  std::atomic<bool> stops_after_agreement_ = false;
  std::atomic<bool> has_ended_ = false;
  unique_fd listener_ = bringup::detail::listen_at({.host = "127.0.0.1"}, 1).value();
  unique_fd server_;
  std::thread thread_{[this] { run(); }};
};

// Otherwise, rank 1 would have to call shrink() although shrink() did nothing on rank 0.
TEST(shrink, without_an_answer_of_the_store_interrupts_no_operation) {
  const test_store store;
  relay to_store(store.address());
  std::atomic<bool> has_failed = false;
  for_each_rank(2, [&](std::uint32_t rank) {
    auto who = store.member(rank, 2);
    if (rank == 0) who.store = to_store.address();
    joined_rank here(who);
    if (rank == 0) {
      to_store.stop();
      const auto began = deadline::clock::now();
      const auto failed = here.group.shrink(deadline::after(16s));
      // The others would expel a rank that took half of the time, and its channels need a part.
      EXPECT_LT(deadline::clock::now() - began, 6s);
      expect_error(failed, "did not answer before the deadline");
      EXPECT_EQ(failed.error().kind(), error_kind::timed_out);
      has_failed = true;
      to_store.resume();
    }
    expect_works(here);
    here.group.shrink(test_deadline()).value();
    expect_works(here);
  });
  EXPECT_TRUE(has_failed);
}

// After the first call of rank 0, the answer of the store is late; the second call fails without
// this. Rank 0 has failed in no operation, so rank 1 only waits for it.
TEST(shrink, that_fails_after_a_late_answer_reports_no_failed_operation) {
  const test_store store;
  relay to_store(store.address());
  std::atomic<bool> has_failed = false;
  std::atomic<bool> has_waited = false;
  for_each_rank(3, [&](std::uint32_t rank) {
    auto who = store.member(rank, 3);
    if (rank == 0) who.store = to_store.address();
    joined_rank here(who);
    if (rank == 0) {
      to_store.stop_after_agreement();
      expect_error(here.group.shrink(deadline::after(5s)), "did not answer before the deadline");
      to_store.resume();
      expect_error(here.group.shrink(deadline::after(5s)), "had not called shrink()");
      has_failed = true;
    }
    if (rank == 1) {
      while (!has_failed) std::this_thread::yield();
      const auto late = here.group.barrier(rank_list{0, 1}, deadline::after(500ms));
      expect_error(late, "rank 0 had not called barrier() when the deadline passed");
      has_waited = true;
    }
    while (!has_waited) std::this_thread::yield();
    here.group.shrink(test_deadline()).value();
    expect_works(here);
  });
}

}  // namespace
}  // namespace verbena::test
