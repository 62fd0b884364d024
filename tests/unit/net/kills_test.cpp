// SPDX-License-Identifier: MIT
// Kills a rank while other ranks exchange, connect, or wait in a barrier or collective operation.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "tests/unit/net/ranks.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

constexpr std::uint32_t ranks = 4;
constexpr std::uint32_t killed = 1;

/// A process of killed_rank.cpp.
class killed_rank {
 public:
  killed_rank(const char* step, std::uint16_t port) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    output_.reset(ends[0]);
    const unique_fd theirs(ends[1]);
    const std::string port_text = std::to_string(port);
    const std::string rank_text = std::to_string(killed);
    const std::string size_text = std::to_string(ranks);
    const std::array<const char*, 6> words{VERBENA_NET_KILLED_RANK, step,
                                           port_text.c_str(),       rank_text.c_str(),
                                           size_text.c_str(),       nullptr};
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::dup2(theirs.get(), STDOUT_FILENO);
    ::execv(words[0], const_cast<char* const*>(words.data()));
    ::_exit(99);
  }
  killed_rank(const killed_rank&) = delete;
  killed_rank& operator=(const killed_rank&) = delete;
  ~killed_rank() { kill(); }

  /// Waits until the process has reached its step. Returns false if the process has exited.
  [[nodiscard]] bool is_ready() const {
    char each = 0;
    return ::read(output_.get(), &each, 1) == 1;
  }
  /// Waits until the process has stopped itself. Returns false if the process has exited.
  [[nodiscard]] bool stops() const {
    int status = 0;
    return ::waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status);
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  unique_fd output_;
};

/// Runs `body(rank)` for all ranks except the killed rank, while `kill()` runs on this thread.
template <class Kill, class Body>
void survive(Kill&& kill, Body&& body) {
  std::thread survivors([&] {
    for_each_rank(ranks, [&](std::uint32_t rank) {
      if (rank != killed) body(rank);
    });
  });
  kill();
  survivors.join();
}

TEST(killed_rank, ends_an_exchange_and_is_named) {
  const test_store store;
  killed_rank victim("exchange", store.address().port);
  ASSERT_TRUE(victim.is_ready());
  std::atomic<std::uint32_t> connected = 0;
  survive(
      [&] {
        while (connected != ranks - 1) std::this_thread::yield();
        victim.kill();
      },
      [&](std::uint32_t rank) {
        auto client = net::store_client::connect(store.member(rank, ranks), test_deadline());
        ++connected;
        const auto failed = client.value().exchange("x", bytes_of("x"), test_deadline());
        expect_error(failed, "rank 1 left the group before the end of exchange(\"x\")");
      });
}

// parity: ibverbs-rs-98
TEST(killed_rank, ends_waiting_for_its_values_and_is_named) {
  const test_store store;
  killed_rank victim("exchange", store.address().port);
  ASSERT_TRUE(victim.is_ready());
  std::atomic<std::uint32_t> found = 0;
  survive(
      [&] {
        while (found != ranks - 1) std::this_thread::yield();
        victim.kill();
      },
      [&](std::uint32_t rank) {
        auto client = connect_client(store.member(rank, ranks));
        EXPECT_EQ(text_of(client.find(killed, "mine", test_deadline()).value()), "alive");
        ++found;
        const auto began = deadline::clock::now();
        for (const char* const name : {"never", "mine"})
          expect_error(client.find(killed, name, test_deadline()), "rank 1 left the group");
        EXPECT_LT(deadline::clock::now() - began, 20s);
      });
}

TEST(killed_rank, ends_joining_before_the_addresses_and_is_named) {
  const test_store store;
  killed_rank victim("exchange", store.address().port);
  ASSERT_TRUE(victim.is_ready());
  // Keeps the group alive: if the last rank leaves, the store removes the group, and the next rank
  // creates a new one.
  const auto witness =
      net::store_client::connect(store.member(ranks - 1, ranks), test_deadline()).value();
  survive([&] { victim.kill(); },
          [&](std::uint32_t rank) {
            if (rank == witness.rank()) return;
            const auto device = testing_support::open_soft();
            const auto pd = device.allocate_pd().value();
            expect_error(net::group::join(pd, store.member(rank, ranks), test_deadline()),
                         "rank 1 left the group");
          });
}

// parity: ibverbs-rs-70
TEST(killed_rank, ends_joining_while_channels_connect_and_is_named) {
  const test_store store;
  killed_rank victim("connect", store.address().port);
  survive(
      [&] {
        EXPECT_TRUE(victim.is_ready());
        victim.kill();
      },
      [&](std::uint32_t rank) {
        const auto device = testing_support::open_soft();
        const auto pd = device.allocate_pd().value();
        const auto failed = net::group::join(pd, store.member(rank, ranks), test_deadline());
        ASSERT_FALSE(failed);
        EXPECT_NE(failed.error().message().find("rank 1"), std::string::npos)
            << failed.error().message();
      });
}

// The rank is stopped, so it does not answer. It is killed while the other ranks wait for its
// answer.
TEST(killed_rank, ends_first_connections_to_it_and_is_named) {
  const test_store store;
  killed_rank victim("first_use", store.address().port);
  std::atomic<std::uint32_t> joined = 0;
  std::atomic<bool> is_stopped = false;
  survive(
      [&] {
        EXPECT_TRUE(victim.is_ready());
        EXPECT_TRUE(victim.stops());
        is_stopped = true;
        while (joined != ranks - 1) std::this_thread::yield();
        victim.kill();
      },
      [&](std::uint32_t rank) {
        joined_rank here(store.member(rank, ranks),
                         net::group_options{.connect = net::connect_mode::on_first_use});
        auto memory = here.pd.allocate(64, access::local_write).value();
        while (!is_stopped) std::this_thread::yield();
        const auto late = here.group[killed].send(source(memory), abort_at(deadline::after(1ms)));
        ++joined;
        EXPECT_EQ(late.refusal(), refusal::connect_failed);
        const auto began = deadline::clock::now();
        const auto failed = here.group[killed].send(source(memory), abort_at(test_deadline()));
        EXPECT_EQ(failed.code(), ECONNREFUSED);
        expect_error(here.group.barrier(test_deadline()), "rank 1");
        EXPECT_LT(deadline::clock::now() - began, 20s);
      });
}

/// Kills a rank while the other ranks are in `call`, which must fail long before its deadline.
template <class Call>
void kill_during(Call&& call) {
  const test_store store;
  killed_rank victim("barrier", store.address().port);
  std::atomic<std::uint32_t> joined = 0;
  survive(
      [&] {
        EXPECT_TRUE(victim.is_ready());
        while (joined != ranks - 1) std::this_thread::yield();
        victim.kill();
      },
      [&](std::uint32_t rank) {
        joined_rank here(store.member(rank, ranks));
        auto memory = here.pd.allocate(64 * 1024, access::local_write).value();
        ++joined;
        const auto began = deadline::clock::now();
        result<void> failed = call(here, memory);
        // On a rank that only sends, `call` can succeed. The next operation fails.
        if (failed) failed = here.group.barrier(test_deadline());
        EXPECT_LT(deadline::clock::now() - began, 20s);
        ASSERT_FALSE(failed);
        EXPECT_NE(failed.error().message().find("rank 1"), std::string::npos)
            << failed.error().message();
      });
}

class killed_in_barrier : public ::testing::TestWithParam<net::barrier_algorithm> {};

TEST_P(killed_in_barrier, survivors_end_at_once_and_name_the_rank) {
  kill_during([](joined_rank& here, memory_region&) {
    return here.group.barrier(test_deadline(), GetParam());
  });
}

INSTANTIATE_TEST_SUITE_P(all, killed_in_barrier,
                         ::testing::Values(net::barrier_algorithm::dissemination,
                                           net::barrier_algorithm::binary_tree,
                                           net::barrier_algorithm::central),
                         [](const auto& of) {
                           std::string name = to_string(of.param);
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

class killed_in_collective : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(all, killed_in_collective,
                         ::testing::Values(std::size_t{64}, std::size_t{64} * 1024));

TEST_P(killed_in_collective, survivors_of_all_reduce_end_at_once_and_name_the_rank) {
  kill_during([](joined_rank& here, memory_region& memory) {
    return here.group.all_reduce<float>(sink(memory, 0, GetParam()), std::plus<>(),
                                        test_deadline());
  });
}

TEST_P(killed_in_collective, survivors_of_reduce_end_at_once_and_name_the_rank) {
  kill_during([](joined_rank& here, memory_region& memory) {
    return here.group.reduce<float>(sink(memory, 0, GetParam()), std::plus<>(), 0, test_deadline());
  });
}

TEST_P(killed_in_collective, survivors_of_broadcast_end_at_once_and_name_the_rank) {
  kill_during([](joined_rank& here, memory_region& memory) {
    return here.group.broadcast(sink(memory, 0, GetParam()), killed, test_deadline());
  });
}

TEST_P(killed_in_collective, survivors_of_all_gather_end_at_once_and_name_the_rank) {
  kill_during([](joined_rank& here, memory_region& memory) {
    return here.group.all_gather(sink(memory, 0, GetParam()), test_deadline());
  });
}

TEST_P(killed_in_collective, survivors_of_all_to_all_end_at_once_and_name_the_rank) {
  kill_during([](joined_rank& here, memory_region& memory) {
    auto other = here.pd.allocate(GetParam(), access::local_write).value();
    return here.group.all_to_all(source(memory, 0, GetParam()), sink(other), test_deadline());
  });
}

}  // namespace
}  // namespace verbena::test
