// SPDX-License-Identifier: MIT
// Memory on real huge pages, where the machine has reserved some: sysctl vm.nr_hugepages=8.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/unit/verbs/loopback.hpp"

namespace verbena::test {
namespace {

// The number behind `name` in a file of /proc, 0 when it is not there. In smaps, the block whose
// range begins with `address`.
std::uint64_t number_in(const char* path, const std::string& name, std::uintptr_t address = 0) {
  std::ifstream file(path);
  bool inside = address == 0;
  for (std::string line; std::getline(file, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2)
      inside = address == 0 || (begin <= address && address < end);
    if (!inside || !line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    std::uint64_t number = 0;
    rest >> number;
    return number;
  }
  return 0;
}

TEST(huge_pages, carry_data_where_the_machine_has_some) {
  if (number_in("/proc/meminfo", "HugePages_Free:") < 4)
    GTEST_SKIP() << "fewer than 4 huge pages are free";
  loopback pair;
  constexpr std::size_t bytes = 3U << 20U;
  const auto rights = access::local_write | access::remote_write;
  const auto from = pair.pd().allocate(bytes, rights, {.huge_pages = huge_pages::required}).value();
  const auto to = pair.pd().allocate(bytes, rights, {.huge_pages = huge_pages::required}).value();
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
