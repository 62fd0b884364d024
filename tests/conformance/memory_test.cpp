// SPDX-License-Identifier: MIT
// Registration: invalid arguments, keys, and transfers with all kinds of memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <vector>

#include "tests/conformance/traffic.hpp"

namespace verbena::conformance {
namespace {

protection_domain make_pd() { return tested().context.allocate_pd().value(); }

// parity: ibverbs-150
TEST(registration, each_registration_has_its_own_keys) {
  const auto pd = make_pd();
  std::vector<memory_region> regions;
  std::set<local_key> local;
  std::set<remote_key> remote;
  for (int i = 0; i < 16; ++i) {
    regions.push_back(pd.allocate(4096, all_access()).value());
    EXPECT_TRUE(local.insert(regions.back().local_key()).second);
    EXPECT_TRUE(remote.insert(regions.back().remote_key()).second);
  }
}

// parity: ibverbs-136
TEST(registration, allocated_memory_is_zeroed) {
  const auto region = make_pd().allocate(10000, access::local_write).value();
  EXPECT_EQ(region.length(), 10000U);
  EXPECT_TRUE(holds(region, 0, std::vector<std::byte>(10000)));
}

// parity: ibverbs-138
TEST(registration, zero_length_registration_is_refused) {
  const auto pd = make_pd();
  EXPECT_FALSE(pd.allocate(0, access::local_write));
  EXPECT_FALSE(pd.register_memory({}, access::local_write));
}

TEST(registration, remote_write_without_local_write_is_refused) {
  const auto pd = make_pd();
  EXPECT_FALSE(pd.allocate(4096, access::remote_write)) << "without local_write";
  EXPECT_FALSE(pd.allocate(4096, access::remote_atomic)) << "without local_write";
}

TEST(registration, unmapped_memory_is_refused) {
  constexpr std::size_t bytes = 1 << 16;
  void* const hole = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(hole, MAP_FAILED);
  ASSERT_EQ(munmap(hole, bytes), 0);
  const auto refused =
      make_pd().register_memory({static_cast<std::byte*>(hole), bytes}, access::local_write);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().code(), 0) << refused.error().message();
}

TEST(registration, read_only_memory_with_local_write_is_refused) {
  constexpr std::size_t bytes = 1 << 16;
  void* const constant = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(constant, MAP_FAILED);
  EXPECT_FALSE(
      make_pd().register_memory({static_cast<std::byte*>(constant), bytes}, access::local_write));
  ASSERT_EQ(munmap(constant, bytes), 0);
}

// parity: ibverbs-rs-59
TEST(registration, same_memory_can_be_registered_twice) {
  const auto pd = make_pd();
  std::vector<std::byte> bytes(4096);
  auto first = pd.register_memory(bytes, access::local_write).value();
  const auto second = pd.register_memory(bytes, all_access()).value();
  EXPECT_NE(first.remote_key(), second.remote_key());
  std::move(first).close().value();
  EXPECT_EQ(second.length(), 4096U);
}

TEST(registration, pd_with_registrations_cannot_be_closed) {
  auto pd = make_pd();
  auto region = pd.allocate(4096, access::local_write).value();
  auto refused = std::move(pd).close();
  ASSERT_FALSE(refused);
  pd = std::move(refused).object();
  std::move(region).close().value();
  std::move(pd).close().value();
}

// Devices without on-demand paging return an error for advice.
// parity: ibverbs-tests-59, ibverbs-162, ibverbs-163
TEST(memory_advice, advise_is_accepted_if_the_device_supports_odp) {
  const auto pd = make_pd();
  const bool on_demand = tested().context.query_extended().value().has_on_demand_paging();
  constexpr std::size_t bytes = 3 * 4096;
  void* const fresh =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(fresh, MAP_FAILED);
  const auto resident_pages = [&] {
    std::array<unsigned char, 3> pages{};
    EXPECT_EQ(mincore(fresh, bytes, pages.data()), 0);
    return std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; });
  };
  const auto access = on_demand ? access::local_write | access::on_demand : access::local_write;
  auto region = pd.register_memory({static_cast<std::byte*>(fresh), bytes}, access).value();
  if (on_demand) {
    EXPECT_EQ(resident_pages(), 0);
  }
  for (const auto advice : {memory_advice::prefetch, memory_advice::prefetch_write}) {
    const std::array parts{region.slice(0, 4096), region.slice(5000, 100)};
    const auto given = pd.advise(advice, parts, {.wait = true});
    EXPECT_EQ(given.has_value(), on_demand);
    if (!given) {
      EXPECT_EQ(given.error().kind(), error_kind::not_supported) << given.error().message();
    }
  }
  if (on_demand) {
    EXPECT_EQ(resident_pages(), 2) << "only the pages of the slices are resident";
  }
  std::move(region).close().value();
  ASSERT_EQ(munmap(fresh, bytes), 0);
}

class memory : public data_test {};
INSTANTIATE_TEST_SUITE_P(rc, memory, ::testing::ValuesIn(every_variant()), name_of);

// Memory of the caller with unaligned addresses and lengths.
// parity: ibverbs-tests-60, ibverbs-140
TEST_P(memory, caller_owned_memory_is_sent_and_received) {
  VERBENA_OPEN();
  auto outgoing = pattern(10007, 71);
  std::vector<std::byte> incoming(10010);
  const auto from =
      connection().pd().register_memory(std::span(outgoing).subspan(3), all_access()).value();
  const auto to = connection()
                      .pd()
                      .register_memory(std::span(incoming).subspan(5, 10004), all_access())
                      .value();
  EXPECT_FALSE(from.owns_memory());
  receive(1, to.slice());
  post([&](auto& batch) { batch.send({.signaled = true}, from.slice()); });
  EXPECT_EQ(received().byte_length(), 10004U);
  EXPECT_TRUE(sent().ok());
  EXPECT_TRUE(
      std::ranges::equal(std::span(incoming).subspan(5, 10004), std::span(outgoing).subspan(3)));
  EXPECT_EQ(incoming[4], std::byte{0});
  EXPECT_EQ(incoming[10009], std::byte{0});
}

TEST_P(memory, caller_owned_memory_is_written_and_read) {
  VERBENA_OPEN();
  auto near = pattern(70000, 72);
  std::vector<std::byte> far(70000);
  const auto local = connection().pd().register_memory(near, all_access()).value();
  const auto remote = connection().pd().register_memory(far, all_access()).value();
  post([&](auto& batch) {
    batch.write({.signaled = true}, local.slice(1, 65001), remote.remote().slice(7, 65001));
  });
  ASSERT_TRUE(sent().ok());
  EXPECT_TRUE(
      std::ranges::equal(std::span(far).subspan(7, 65001), std::span(near).subspan(1, 65001)));
  std::ranges::fill(near, std::byte{0});
  post([&](auto& batch) {
    batch.read({.signaled = true}, local.slice(100, 333), remote.remote().slice(9, 333));
  });
  ASSERT_TRUE(sent().ok());
  EXPECT_TRUE(
      std::ranges::equal(std::span(near).subspan(100, 333), std::span(far).subspan(9, 333)));
}

TEST_P(memory, region_reports_the_registered_address) {
  VERBENA_OPEN();
  alignas(4096) static std::array<std::byte, 8192> mine;
  fill(mine, 73);
  constexpr std::uint64_t base = 0x10'0000'0000;
  const auto region = connection().pd().register_memory(mine, all_access(), {.iova = base}).value();
  EXPECT_EQ(region.remote().address(), base);
  post([&](auto& batch) {
    batch.write({.signaled = true}, region.slice(10, 1000), region.remote().slice(5000, 1000));
  });
  ASSERT_TRUE(sent().ok());
  EXPECT_TRUE(
      std::ranges::equal(std::span(mine).subspan(5000, 1000), std::span(mine).subspan(10, 1000)));
}

TEST_P(memory, one_message_gathers_from_different_regions) {
  VERBENA_OPEN();
  auto on_heap = pattern(500, 73);
  const auto first = connection().pd().register_memory(on_heap, access::local_write).value();
  const auto second = connection().memory(4096, {});
  fill(second.bytes(), 74);
  const auto sink = connection().memory(4096);
  const std::array from{first.slice(), second.slice(10, 700)};
  receive(1, sink.slice());
  post([&](auto& batch) { batch.send({.signaled = true}, from); });
  EXPECT_EQ(received().byte_length(), 1200U);
  EXPECT_TRUE(sent().ok());
  EXPECT_TRUE(holds(sink, 0, on_heap));
  EXPECT_TRUE(holds(sink, 500, second.bytes().subspan(10, 700)));
}

TEST_P(memory, send_from_region_without_access_flags_succeeds) {
  VERBENA_OPEN();
  const auto constant = connection().memory(4096, {});
  fill(constant.bytes(), 75);
  const auto sink = connection().memory(4096);
  receive(1, sink.slice());
  post([&](auto& batch) { batch.send({.signaled = true}, constant.slice()); });
  EXPECT_TRUE(received().ok());
  EXPECT_TRUE(sent().ok());
  EXPECT_TRUE(holds(sink, 0, constant.bytes()));
}

TEST_P(memory, memory_registered_during_traffic_is_usable_immediately) {
  VERBENA_OPEN();
  for (std::uint32_t round = 0; round < 20; ++round) {
    const auto near = connection().memory(8192);
    const auto far = connection().memory(8192);
    fill(near.bytes(), round);
    post([&](auto& batch) { batch.write({.signaled = true}, near.slice(), far.remote()); });
    ASSERT_TRUE(sent().ok());
    ASSERT_TRUE(holds(far, 0, near.bytes()));
  }
}

}  // namespace
}  // namespace verbena::conformance
