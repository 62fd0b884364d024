// SPDX-License-Identifier: MIT
// Pools of huge pages, if the host has reserved some: sysctl vm.nr_hugepages=8.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include "tests/unit/memory/host_pages.hpp"
#include "tests/unit/verbs/huge_pages_turn.hpp"
#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/proc_file.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/memory/buffer_pool.hpp"

namespace verbena {
namespace {

using testing_support::expect_error;

class pool_huge_pages : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!turn_.some_are_free()) GTEST_SKIP() << "fewer than 4 huge pages are free";
  }

  // Three buffers, in two huge pages of 2 MiB.
  static buffer_pool_options options() {
    return {.classes = {{.bytes = 1U << 20U, .count = 3}},
            .access = access::local_write | access::remote_write,
            .huge_pages = huge_pages::required};
  }

  static std::uint64_t page_kib(const buffer& of) {
    const auto address = reinterpret_cast<std::uintptr_t>(of.bytes().data());
    return test::number_in("/proc/self/smaps", "KernelPageSize:", address);
  }

 private:
  test::huge_pages_turn turn_;
};

TEST_F(pool_huge_pages, carry_messages_and_writes) {
  test::loopback pair;
  const auto pool = buffer_pool::create(pair.pd(), options()).value();
  EXPECT_EQ(pool.registered_bytes(), 3U << 20U);
  auto from = pool.take(1U << 20U).value();
  auto to = pool.take(1U << 20U).value();
  auto written = pool.take(1U << 20U).value();  // in the second page
  for (const auto* each : {&from, &to, &written}) EXPECT_EQ(page_kib(*each), 2048U);
  std::memset(from.bytes().data(), 5, from.capacity());
  pair.b().queue.post_receive({}, to.slice()).value();
  auto batch = pair.a().queue.start_send();
  batch.send({}, from.slice());
  batch.write({.signaled = true}, from.slice(), written.remote());
  batch.submit().value();
  test::take(pair.a().sends, 1).at(0).result().value();
  test::take(pair.b().receives, 1).at(0).result().value();
  EXPECT_EQ(std::memcmp(to.bytes().data(), from.bytes().data(), from.capacity()), 0);
  EXPECT_EQ(std::memcmp(written.bytes().data(), from.bytes().data(), from.capacity()), 0);
}

TEST_F(pool_huge_pages, are_freed_with_the_pool) {
  const auto pd = testing_support::open_soft().allocate_pd().value();
  for (int round = 0; round < 20; ++round) {
    const auto pool = buffer_pool::create(pd, options()).value();
    auto one = pool.take(1).value();
    std::memset(one.bytes().data(), 1, one.capacity());
  }
}

TEST_F(pool_huge_pages, required_pages_fail_and_preferred_pages_fall_back) {
  const auto pd = testing_support::open_soft().allocate_pd().value();
  auto wanted = options();
  const auto kib = test::number_in("/proc/meminfo", "HugePages_Total:") * 2048;
  wanted.classes = {{.bytes = 1U << 20U, .count = static_cast<std::uint32_t>(kib / 1024 + 1)}};
  expect_error(buffer_pool::create(pd, wanted), "raise /proc/sys/vm/nr_hugepages");
  wanted.huge_pages = huge_pages::preferred;
  const auto pool = buffer_pool::create(pd, wanted).value();
  EXPECT_EQ(page_kib(pool.take(1).value()), 4U);
}

TEST_F(pool_huge_pages, are_on_the_requested_node) {
  if (!test::may_place()) GTEST_SKIP() << "the kernel refuses placements: no CAP_SYS_NICE";
  const auto pd = testing_support::open_soft().allocate_pd().value();
  int looked_at = 0;
  for (const unsigned node : numa_nodes().value()) {
    const auto pages = test::folder_of(node) + "hugepages/hugepages-2048kB/free_hugepages";
    if (test::number_in(pages, "") < 2) continue;
    auto wanted = options();
    wanted.placement = numa_placement::on_node(node, numa_binding::strict);
    const auto pool = buffer_pool::create(pd, wanted).value();
    const auto first = pool.take(1).value();
    const auto second = pool.take(1).value();
    const auto third = pool.take(1).value();
    for (const auto* each : {&first, &second, &third}) {
      EXPECT_EQ(page_kib(*each), 2048U);
      EXPECT_EQ(test::pages_of(each->bytes()), std::set{static_cast<int>(node)});
    }
    ++looked_at;
  }
  EXPECT_GT(looked_at, 0);
}

}  // namespace
}  // namespace verbena
