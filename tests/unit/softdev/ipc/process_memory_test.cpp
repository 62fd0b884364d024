// SPDX-License-Identifier: MIT
#include "softdev/ipc/process_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/unit/softdev/peers/link_pair.hpp"

namespace verbena::softdev {
namespace {

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

copy_outcome read_one(pid_t pid, std::span<const iovec> local, std::uint64_t remote,
                      std::size_t bytes) {
  const iovec place = place_in_process(remote, bytes);
  return remote_read(pid, local, {&place, 1});
}

copy_outcome write_one(pid_t pid, std::span<const iovec> local, std::uint64_t remote,
                       std::size_t bytes) {
  const iovec place = place_in_process(remote, bytes);
  return remote_write(pid, local, {&place, 1});
}

std::vector<unsigned char> pattern(std::size_t size, unsigned seed) {
  std::vector<unsigned char> bytes(size);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(seed));
  return bytes;
}

/// More segments than one system call accepts.
std::vector<iovec> pieces_of(std::vector<unsigned char>& bytes, std::size_t piece) {
  std::vector<iovec> pieces;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    pieces.push_back({bytes.data() + at, std::min(piece, bytes.size() - at)});
    pieces.push_back({nullptr, 0});  // empty segments are ignored
  }
  return pieces;
}

TEST(process_memory, many_segments_are_scattered_and_gathered) {
  auto far = pattern(100'003, 3);
  std::vector<unsigned char> near(far.size());
  const auto into = pieces_of(near, 500);
  const auto read = read_one(::getpid(), into, address_of(far.data()), far.size());
  EXPECT_EQ(read.status, copy_status::ok);
  EXPECT_EQ(read.copied, far.size());
  EXPECT_EQ(near, far);
  std::ranges::copy(pattern(far.size(), 99), near.begin());
  const auto written = write_one(::getpid(), into, address_of(far.data()), far.size());
  EXPECT_EQ(written.status, copy_status::ok);
  EXPECT_EQ(near, far);
}

TEST(process_memory, lists_on_both_sides_are_copied_in_order) {
  auto far = pattern(64'000, 5);
  std::vector<unsigned char> near(far.size());
  const auto there = pieces_of(far, 700);
  const auto here = pieces_of(near, 500);
  EXPECT_EQ(remote_read(::getpid(), here, there).copied, far.size());
  EXPECT_EQ(near, far);
  std::ranges::copy(pattern(far.size(), 77), near.begin());
  EXPECT_EQ(remote_write(::getpid(), here, there).status, copy_status::ok);
  EXPECT_EQ(near, far);
}

TEST(process_memory, list_with_an_unmapped_place_reports_what_came_before_it) {
  std::vector<unsigned char> far(24);
  const auto near = pattern(24, 9);
  const std::vector<iovec> here{{const_cast<unsigned char*>(near.data()), near.size()}};
  const std::vector<iovec> there{place_in_process(address_of(far.data()), 8),
                                 place_in_process(8, 8),
                                 place_in_process(address_of(far.data()) + 16, 8)};
  const auto outcome = remote_write(::getpid(), here, there);
  EXPECT_EQ(outcome.status, copy_status::fault);
  EXPECT_EQ(outcome.copied, 8U);
  EXPECT_EQ(far[7], near[7]);
  EXPECT_EQ(far[16], 0);
}

TEST(process_memory, copy_does_not_exceed_the_requested_length) {
  auto far = pattern(100, 1);
  std::vector<unsigned char> near(100, 0xee);
  const iovec into{near.data(), near.size()};
  EXPECT_EQ(read_one(::getpid(), {&into, 1}, address_of(far.data()), 10).copied, 10U);
  EXPECT_EQ(near[9], far[9]);
  EXPECT_EQ(near[10], 0xee);
  EXPECT_EQ(read_one(::getpid(), {&into, 1}, address_of(far.data()), 0).status, copy_status::ok);
}

TEST(process_memory, copy_up_to_an_unmapped_page_reports_a_fault) {
  void* pages = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(::munmap(static_cast<char*>(pages) + 4096, 4096), 0);
  std::vector<unsigned char> near(8192);
  const iovec into{near.data(), near.size()};
  const auto outcome = read_one(::getpid(), {&into, 1}, address_of(pages), 8192);
  EXPECT_EQ(outcome.status, copy_status::fault);
  EXPECT_EQ(outcome.copied, 4096U);
  EXPECT_EQ(write_one(::getpid(), {&into, 1}, 8, 8).status, copy_status::fault);
  ::munmap(pages, 4096);
}

TEST(process_memory, dead_process_is_distinguished_from_permission_denied) {
  pid_t gone = 0;
  {
    testing::child child([](int) { return 0; });
    gone = child.pid();
    EXPECT_EQ(child.wait(), 0);
  }
  int value = 0;
  const iovec into{&value, sizeof value};
  EXPECT_EQ(read_one(gone, {&into, 1}, address_of(&value), 4).status, copy_status::process_gone);
}

TEST(process_memory, process_of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can change its user";
  testing::child other([](int to_parent) {
    if (::setuid(65534) != 0) return 1;
    int value = 0;
    const iovec into{&value, sizeof value};
    // The parent belongs to root: the user `nobody` may not access it.
    const auto outcome = read_one(::getppid(), {&into, 1}, address_of(&value), 4);
    testing::send_value(to_parent, outcome.status);
    return 0;
  });
  EXPECT_EQ(other.read<copy_status>(), copy_status::not_permitted);
  EXPECT_EQ(other.wait(), 0);
}

TEST(process_memory, probe_reports_the_working_methods) {
  struct probed {
    std::uint64_t source = 0x1234'5678'9abc'def0U;
    std::uint64_t sink = 0;
  } here;
  probe_place place{address_of(&here.source), here.source, address_of(&here.sink)};
  auto routes = probe_copy(::getpid(), place);
  EXPECT_TRUE(routes.read);
  EXPECT_TRUE(routes.write);
  EXPECT_EQ(here.sink, here.source);
  place.source_value ^= 1;
  EXPECT_FALSE(probe_copy(::getpid(), place).read) << "the value at the address differs";
  place = {8, 0, 8};
  EXPECT_FALSE(probe_copy(::getpid(), place).read);
  place = {address_of(&here.source), here.source, 8};
  routes = probe_copy(::getpid(), place);
  EXPECT_TRUE(routes.read);
  EXPECT_FALSE(routes.write);
}

}  // namespace
}  // namespace verbena::softdev
