// SPDX-License-Identifier: MIT
// Runs the ranks of a group as threads of the test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/net/group.hpp"
#include "verbena/net/store.hpp"
#include "verbena/net/store_client.hpp"

namespace verbena::test {

using namespace std::chrono_literals;

/// Returns a deadline that passes only if a test hangs.
inline deadline test_deadline() { return deadline::after(60s); }

/// A store at a free port of this host.
class test_store {
 public:
  explicit test_store(const net::store_options& options = {})
      : store_(net::store::open({.host = "127.0.0.1"}, options).value()) {}

  [[nodiscard]] net::membership member(std::uint32_t rank, std::uint32_t size,
                                       std::string name = "test") const {
    return {.rank = rank,
            .size = size,
            .store = store_.local_address(),
            .host = net::store_host::separate,
            .name = std::move(name)};
  }
  [[nodiscard]] const net::store& operator*() const { return store_; }
  [[nodiscard]] const bringup::address& address() const { return store_.local_address(); }

 private:
  net::store store_;
};

/// Returns a connected client of a store.
inline net::store_client connect_client(const net::membership& who) {
  return net::store_client::connect(who, test_deadline()).value();
}

/// Returns exchanged bytes as text.
inline std::string text_of(const net::exchanged_bytes& of) {
  return {reinterpret_cast<const char*>(of.data()), of.size()};
}

using rank_list = std::vector<std::uint32_t>;

/// Returns the members of a group.
inline rank_list members_of(const net::group& of) {
  const auto all = of.members();
  return {all.begin(), all.end()};
}

/// Calls `body(rank)` on one thread per rank, and waits for all threads.
template <class Body>
void for_each_rank(std::uint32_t size, Body&& body) {
  std::vector<std::thread> threads;
  threads.reserve(size);
  for (std::uint32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&body, rank] { body(rank); });
  for (auto& each : threads) each.join();
}

/// Tag that selects group::rejoin().
struct again {};

/// A rank of a group on soft0.
struct joined_rank {
  joined_rank(const net::membership& who, again)
      : group(net::group::rejoin(pd, who, test_deadline()).value()) {}
  explicit joined_rank(const net::membership& who, const net::group_options& options = {})
      : group(net::group::join(pd, who, test_deadline(), options).value()) {}

  context device = testing_support::open_soft();
  protection_domain pd = device.allocate_pd().value();
  net::group group;
};

/// Calls `body(joined_rank)` on one thread per rank.
template <class Body>
void in_group(std::uint32_t size, Body&& body, const net::group_options& options = {}) {
  const test_store store;
  for_each_rank(size, [&](std::uint32_t rank) {
    joined_rank here(store.member(rank, size), options);
    body(here);
    EXPECT_TRUE(
        here.group.exchange("end of the test", std::span<const std::byte>(), test_deadline()));
  });
}

/// Computes the sum of 1 << rank over the members, and expects each member in the sum.
inline void expect_works(joined_rank& here) {
  auto memory = here.pd.allocate(64, access::local_write).value();
  auto* const value = reinterpret_cast<std::uint64_t*>(memory.bytes().data());
  std::uint64_t all = 0;
  for (const std::uint32_t each : here.group.members()) all |= std::uint64_t{1} << each;
  // Exchanges more messages than there are slots, so that words of an earlier epoch would be
  // detected.
  for (int round = 0; round < 10; ++round) {
    *value = std::uint64_t{1} << here.group.rank();
    here.group.all_reduce<std::uint64_t>(sink(memory, 0, 8), std::plus<>(), test_deadline())
        .value();
    EXPECT_EQ(*value, all);
  }
  here.group.barrier(test_deadline()).value();
}

}  // namespace verbena::test
