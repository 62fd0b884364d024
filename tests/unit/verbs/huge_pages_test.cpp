// SPDX-License-Identifier: MIT
// Memory on huge pages, if the host has reserved some: sysctl vm.nr_hugepages=8.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/unit/verbs/huge_pages_turn.hpp"
#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/proc_file.hpp"

namespace verbena::test {
namespace {

TEST(huge_pages, carry_data_if_the_host_has_free_huge_pages) {
  const huge_pages_turn turn;
  if (!turn.some_are_free()) GTEST_SKIP() << "fewer than 4 huge pages are free";
  loopback pair;
  constexpr std::size_t bytes = 3U << 20U;
  const auto access = access::local_write | access::remote_write;
  const auto from = pair.pd().allocate(bytes, access, {.huge_pages = huge_pages::required}).value();
  const auto to = pair.pd().allocate(bytes, access, {.huge_pages = huge_pages::required}).value();
  for (const auto* region : {&from, &to}) {
    const auto address = reinterpret_cast<std::uintptr_t>(region->bytes().data());
    EXPECT_EQ(number_in("/proc/self/smaps", "KernelPageSize:", address),
              number_in("/proc/meminfo", "Hugepagesize:"));
  }
  fill(from.bytes(), 1);
  auto batch = pair.a().queue.start_send();
  batch.write({.id = 1, .signaled = true}, from.slice(), to.remote());
  ASSERT_TRUE(batch.submit());
  ASSERT_EQ(take(pair.a().sends, 1).front().status(), completion_status::success);
  EXPECT_EQ(pattern(bytes, 1), std::vector(to.bytes().begin(), to.bytes().end()));
}

}  // namespace
}  // namespace verbena::test
