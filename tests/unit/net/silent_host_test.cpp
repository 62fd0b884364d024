// SPDX-License-Identifier: MIT
// The host of rank 0, or of another rank, fails or is not reachable any more: its packets do not
// arrive, and no connection is reset.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <latch>

#include "src/bringup/socket.hpp"
#include "tests/unit/net/ranks.hpp"

namespace verbena::test {
namespace {

using bringup::detail::local_address_of;
using bringup::detail::peer_address_of;
using testing_support::expect_error;

/// Calls `what` with each socket of this process for which `is` returns true.
template <class Predicate, class Call>
void for_each_socket(Predicate&& is, Call&& what) {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    if (!is(fd)) continue;
    what(fd);
    ++count;
  }
  EXPECT_GT(count, 0);
}

/// Drops each packet that the socket receives, before TCP handles it.
void drop_packets(int socket) {
  sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog all{.len = 1, .filter = &none};
  EXPECT_EQ(::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &all, sizeof all), 0);
}

int option_of(int socket, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  EXPECT_EQ(::getsockopt(socket, level, name, &value, &length), 0);
  return value;
}

/// Expects that TCP detects a failed host after the documented time, and makes the time short.
void shorten_detection(int socket) {
  EXPECT_EQ(option_of(socket, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option_of(socket, IPPROTO_TCP, TCP_KEEPIDLE) +
                option_of(socket, IPPROTO_TCP, TCP_KEEPINTVL) *
                    option_of(socket, IPPROTO_TCP, TCP_KEEPCNT),
            25);
  for (const int name : {TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT}) {
    const int one = 1;
    EXPECT_EQ(::setsockopt(socket, IPPROTO_TCP, name, &one, sizeof one), 0);
  }
  const int milliseconds = 1000;
  if (option_of(socket, IPPROTO_TCP, TCP_USER_TIMEOUT) != 0)
    ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

/// Expects `departed` as the ranks that have left, before the deadline of the test.
template <class Client>
void expect_departed(Client& of, std::uint32_t departed) {
  for (const auto until = test_deadline(); of.departed().empty() && !until.expired();)
    ::sched_yield();
  ASSERT_EQ(of.departed().size(), 1U);
  EXPECT_EQ(of.departed().front(), departed);
}

class silent_host : public ::testing::Test {
 protected:
  [[nodiscard]] auto is_of_store() const {
    return [this](int fd) {
      const auto local = local_address_of(fd);
      return local && local->port == store_.address().port;
    };
  }
  [[nodiscard]] auto is_of_client() const {
    return [this](int fd) {
      const auto peer = peer_address_of(fd);
      return peer && peer->port == store_.address().port;
    };
  }
  /// Calls `work` on rank 1, while rank 0, whose store has the host, takes part in no operation.
  template <class Work>
  void on_rank_1(Work&& work) {
    std::latch joined(2);
    std::latch done(1);
    for_each_rank(2, [&](std::uint32_t rank) {
      auto who = store_.member(rank, 2);
      if (rank == 1) who.host = net::store_host::rank_0;
      joined_rank here(who);
      joined.arrive_and_wait();
      if (rank == 0) return done.wait();
      work(here);
      done.count_down();
    });
  }

  test_store store_;
};

TEST_F(silent_host, of_rank_0_ends_a_barrier_that_waits_for_rank_0) {
  on_rank_1([&](joined_rank& here) {
    for_each_socket(is_of_client(), shorten_detection);
    for_each_socket(is_of_store(), drop_packets);
    const auto met = here.group.barrier(test_deadline());
    expect_error(met, "rank 0 left the group before the end of a barrier");
    EXPECT_EQ(met.error().code(), ECONNABORTED);
    expect_departed(here.group, 0);
    expect_error(here.group.exchange("x", bytes_of("x"), test_deadline()),
                 "its host, that of rank 0, has not answered for 25 s or more");
  });
}

// TCP repeats the bytes of the request, and does not probe the connection.
TEST_F(silent_host, of_rank_0_ends_a_request) {
  on_rank_1([&](joined_rank& here) {
    for_each_socket(is_of_client(), shorten_detection);
    for_each_socket(is_of_store(), drop_packets);
    expect_error(here.group.exchange("x", bytes_of("x"), test_deadline()),
                 "its host, that of rank 0, has not answered for 25 s or more");
    expect_departed(here.group, 0);
  });
}

// The host answers, but TCP has ended the connection.
TEST_F(silent_host, of_rank_0_that_answers_again_is_not_its_end) {
  on_rank_1([&](joined_rank& here) {
    for_each_socket(is_of_client(), shorten_detection);
    for_each_socket([&](int fd) { return is_of_store()(fd) && peer_address_of(fd); }, drop_packets);
    expect_error(here.group.exchange("x", bytes_of("x"), test_deadline()), "but still runs");
    EXPECT_TRUE(here.group.departed().empty());
  });
}

TEST_F(silent_host, of_a_rank_is_reported_to_the_others) {
  const auto silent = connect_client(store_.member(1, 2));
  for_each_socket(is_of_client(), drop_packets);
  for_each_socket([&](int fd) { return is_of_store()(fd) && peer_address_of(fd); },
                  shorten_detection);
  auto here = connect_client(store_.member(0, 2));
  expect_departed(here, 1);
}

}  // namespace
}  // namespace verbena::test
