// SPDX-License-Identifier: MIT
// Ranks that end, or stop, between two steps of shrink(). Such a rank is a client of the store that
// takes part in the first step only; the other ranks are threads of the test.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <span>
#include <thread>
#include <variant>

#include "src/net/connection_message.hpp"
#include "src/net/store_message.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

/// A rank of a group with connect_mode::on_first_use that has no acceptor.
class half_rank {
 public:
  half_rank(const test_store& store, std::uint32_t rank, std::uint32_t size)
      : link_(bringup::stream::connect(store.address(), test_deadline()).value()) {
    call(encode(net::detail::store_hello{.rank = rank, .size = size, .name = "test"}));
    const net::detail::rank_contact contact{
        .board = board_.remote(), .token = {}, .acceptor = {.host = "127.0.0.1", .port = 1}};
    const auto mine = net::detail::encode(contact);
    const std::span<const std::byte> part = mine;
    call(net::detail::encode_exchange(
        {.number = 1, .timeout_ms = 60'000, .name = "verbena: contacts"}, std::span(&part, 1)));
  }
  /// Takes part in the first step of shrink().
  void begin_shrink() {
    const net::detail::blob state(sizeof(std::uint32_t) + 1);  // epoch 0, an empty list
    const std::span<const std::byte> part = state;
    const net::detail::store_agreement first{.number = 2, .timeout_ms = 60'000, .name = "shrink"};
    const auto agreed = call(net::detail::encode_agreement(first, std::span(&part, 1)));
    EXPECT_TRUE(std::holds_alternative<net::detail::store_agreed>(agreed));
  }

 private:
  /// Sends a request and returns its answer.
  net::detail::store_answer call(const net::detail::blob& request) {
    link_.send(request, test_deadline()).value();
    while (true) {
      auto answer = net::detail::decode_message(link_.receive(test_deadline()).value()).value();
      if (!std::holds_alternative<net::detail::store_left>(answer.what)) return answer.what;
    }
  }

  context device_ = testing_support::open_soft();
  protection_domain pd_ = device_.allocate_pd().value();
  memory_region board_ =
      pd_.allocate(1U << 20U, access::local_write | access::remote_read | access::remote_write)
          .value();
  bringup::stream link_;
};

const net::group_options on_first_use_of_channels{.connect = net::connect_mode::on_first_use};

TEST(shrink, rank_that_ends_after_the_first_step_is_no_member) {
  const test_store store;
  for_each_rank(4, [&](std::uint32_t rank) {
    if (rank == 1) {
      half_rank here(store, rank, 4);
      here.begin_shrink();
      return;  // the destructor closes the connection
    }
    joined_rank here(store.member(rank, 4), on_first_use_of_channels);
    here.group.shrink(test_deadline()).value();
    EXPECT_EQ(members_of(here.group), (rank_list{0, 2, 3}));
    expect_works(here);
  });
}

// The process of rank 1 stops. The others expel it after half of the remaining time.
TEST(shrink, rank_that_stops_after_the_first_step_is_expelled_before_the_deadline) {
  const test_store store;
  std::atomic<int> done = 0;
  for_each_rank(4, [&](std::uint32_t rank) {
    if (rank == 1) {
      half_rank here(store, rank, 4);
      here.begin_shrink();
      while (done < 3) std::this_thread::yield();
      return;
    }
    joined_rank here(store.member(rank, 4), on_first_use_of_channels);
    const auto until = deadline::after(16s);
    here.group.shrink(until).value();
    EXPECT_EQ(members_of(here.group), (rank_list{0, 2, 3}));
    expect_works(here);
    ++done;
  });
}

// Rank 0 is a minority after the first step.
TEST(shrink, rank_without_a_majority_after_the_first_step_fails_and_names_the_others) {
  const test_store store;
  std::atomic<bool> is_over = false;
  for_each_rank(3, [&](std::uint32_t rank) {
    if (rank != 0) {
      half_rank here(store, rank, 3);
      here.begin_shrink();
      while (!is_over) std::this_thread::yield();
      return;
    }
    joined_rank here(store.member(rank, 3), on_first_use_of_channels);
    const auto began = deadline::clock::now();
    const auto failed = here.group.shrink(deadline::after(12s));
    EXPECT_LT(deadline::clock::now() - began, 40s);
    EXPECT_TRUE(failed.error().is(std::errc::timed_out)) << failed.error().message();
    expect_error(failed, "ranks 1 and 2 had not called");
    is_over = true;
  });
}

}  // namespace
}  // namespace verbena::test
