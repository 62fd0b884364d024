// SPDX-License-Identifier: MIT
#include "softdev/shm/arena.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "tests/unit/softdev/failing_allocations.hpp"

namespace verbena::softdev {
namespace {

using pages = arena_registry::pages;

std::span<unsigned char> bytes_at(void* memory, std::size_t size) {
  return {static_cast<unsigned char*>(memory), size};
}
bool all_zero(std::span<const unsigned char> bytes) {
  return std::ranges::all_of(bytes, [](unsigned char b) { return b == 0; });
}

TEST(arena, memory_is_page_aligned_zeroed_and_writable) {
  arena_registry arenas;
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{100'000},
                                 std::size_t{300'000}, std::size_t{3'000'000}}) {
    void* memory = arenas.allocate(size, pages::normal).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0U);
    auto bytes = bytes_at(memory, size);
    EXPECT_TRUE(all_zero(bytes));
    std::ranges::fill(bytes, static_cast<unsigned char>(0xaa));
    EXPECT_EQ(arenas.free(memory), 0);
  }
  EXPECT_EQ(arenas.size(), 0U);
}

TEST(arena, reallocated_pages_are_zeroed) {
  arena_registry arenas;
  void* first = arenas.allocate(4096, pages::normal).value();
  void* keep = arenas.allocate(4096, pages::normal).value();
  std::memset(first, 0x55, 4096);
  ASSERT_EQ(arenas.free(first), 0);
  void* again = arenas.allocate(4096, pages::normal).value();
  EXPECT_EQ(again, first) << "the address is reused";
  EXPECT_TRUE(all_zero(bytes_at(again, 4096)));
  EXPECT_EQ(arenas.free(again), 0);
  EXPECT_EQ(arenas.free(keep), 0);
}

#ifdef VERBENA_FAILS_ALLOCATIONS
TEST(arena, freeing_memory_and_asking_for_regions_allocate_nothing) {
  arena_registry arenas;
  std::vector<void*> all;
  // With as many arenas as allocations, because they are large.
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) all.push_back(arenas.allocate(300'000, pages::normal).value());
    static_cast<void>(arenas.take_retired());
    testing::fail_allocation(1);
    const bool local_is_ordinary = !arenas.range_of(&round);
    int failures = 0;
    for (void* each : all) failures += arenas.free(each) != 0 ? 1 : 0;
    EXPECT_EQ(testing::permit_allocations(), 0U);
    EXPECT_TRUE(local_is_ordinary);
    EXPECT_EQ(failures, 0);
    EXPECT_EQ(arenas.take_retired().size(), all.size());
    all.clear();
  }
}
#endif

TEST(arena, invalid_allocation_is_refused) {
  arena_registry arenas;
  EXPECT_EQ(arenas.allocate(0, pages::normal).error().kind(), error_kind::invalid_argument);
  EXPECT_EQ(arenas.allocate(SIZE_MAX, pages::normal).error().code(), ENOMEM);
  EXPECT_EQ(arenas.allocate(SIZE_MAX / 8, pages::normal).error().code(), ENOMEM);
  EXPECT_EQ(arenas.free(nullptr), EINVAL);
  int local = 0;
  EXPECT_EQ(arenas.free(&local), EINVAL);
  auto* memory = static_cast<char*>(arenas.allocate(8192, pages::normal).value());
  EXPECT_EQ(arenas.free(memory + 4096), EINVAL) << "the address is not the start of the allocation";
  EXPECT_EQ(arenas.free(memory), 0);
  EXPECT_EQ(arenas.free(memory), EINVAL) << "the allocation was already freed";
}

std::size_t free_huge_pages() {
  std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  std::size_t count = 0;
  file >> count;
  return count;
}

TEST(arena, huge_pages_are_allocated_or_refused_with_enomem) {
  arena_registry arenas;
  const auto memory = arenas.allocate(1, pages::huge);
  if (free_huge_pages() == 0) {
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code(), ENOMEM);
    EXPECT_EQ(arenas.size(), 0U);
  } else {
    ASSERT_TRUE(memory) << memory.error().message();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*memory) % (2U << 20), 0U);
    EXPECT_EQ(arenas.free(*memory), 0);
  }
}

TEST(arena, lookup_finds_addresses_inside_one_allocation_only) {
  arena_registry arenas;
  auto* memory = static_cast<char*>(arenas.allocate(8192, pages::normal).value());
  const auto whole = arenas.acquire(memory, 8192);
  ASSERT_TRUE(whole);
  EXPECT_NE(whole->arena, 0U);
  const auto inner = arenas.acquire(memory + 100, 50);
  ASSERT_TRUE(inner);
  EXPECT_EQ(inner->arena, whole->arena);
  EXPECT_EQ(inner->offset, whole->offset + 100);
  EXPECT_FALSE(arenas.acquire(memory + 1, 8192));
  EXPECT_FALSE(arenas.acquire(memory, SIZE_MAX));
  EXPECT_FALSE(arenas.acquire(memory - 1, 1));
  EXPECT_FALSE(arenas.acquire(&arenas, 1));
  EXPECT_FALSE(arenas.acquire(nullptr, 0));
  EXPECT_EQ(arenas.free(memory), EBUSY);
  arenas.release(memory);
  EXPECT_EQ(arenas.free(memory), EBUSY);
  arenas.release(memory + 100);
  EXPECT_EQ(arenas.free(memory), 0);
}

TEST(arena_death, release_without_acquire_stops_the_program) {
  arena_registry arenas;
  void* memory = arenas.allocate(1, pages::normal).value();
  EXPECT_DEATH(arenas.release(memory), "released as often as it was acquired");
}

struct viewed {
  std::byte* address;
  mapping map;
};
viewed view_of(arena_registry& arenas, void* memory) {
  const auto place = arenas.acquire(memory, 1).value();
  auto share = arenas.share_arena(place.arena).value();
  auto map = map_shared(share.fd.get(), share.bytes, map_access::read_write).value();
  std::byte* address = map.data() + place.offset;
  return {address, std::move(map)};
}

TEST(arena, shared_arena_has_the_same_bytes_in_both_mappings) {
  arena_registry arenas;
  for (const std::size_t size : {std::size_t{5000}, std::size_t{1'000'000}}) {
    auto* memory = static_cast<std::byte*>(arenas.allocate(size, pages::normal).value());
    const viewed other = view_of(arenas, memory);
    memory[1234] = std::byte{42};
    EXPECT_EQ(other.address[1234], std::byte{42});
    other.address[77] = std::byte{43};
    EXPECT_EQ(memory[77], std::byte{43});
    arenas.release(memory);
  }
  EXPECT_FALSE(arenas.share_arena(0));
  EXPECT_FALSE(arenas.share_arena(1U << 30));
}

TEST(arena, replaced_pages_keep_content_and_old_views_are_unchanged) {
  arena_registry arenas;
  for (const std::size_t size : {std::size_t{5000}, std::size_t{1'000'000}}) {
    auto* memory = static_cast<std::byte*>(arenas.allocate(size, pages::normal).value());
    auto* neighbour = static_cast<std::byte*>(arenas.allocate(4096, pages::normal).value());
    memory[4999] = std::byte{9};
    neighbour[0] = std::byte{8};
    const viewed old = view_of(arenas, memory);
    const auto before = arenas.acquire(memory, size).value();
    const auto moved = arenas.replace_pages(memory + 100).value();
    EXPECT_EQ(moved.address, reinterpret_cast<std::uintptr_t>(memory));
    EXPECT_GE(moved.length, size);
    EXPECT_NE(moved.arena, before.arena);
    EXPECT_EQ(memory[4999], std::byte{9});
    EXPECT_EQ(neighbour[0], std::byte{8});
    old.address[4999] = std::byte{66};
    EXPECT_EQ(memory[4999], std::byte{9}) << "writes to the old view do not change the new pages";
    const viewed fresh = view_of(arenas, memory);
    fresh.address[1] = std::byte{7};
    EXPECT_EQ(memory[1], std::byte{7});
    for (int uses = 0; uses < 3; ++uses) arenas.release(memory);
    EXPECT_EQ(arenas.free(memory), 0);
    // The old pages are never allocated again.
    std::vector<void*> later;
    later.reserve(8);
    for (int i = 0; i < 8; ++i) later.push_back(arenas.allocate(4096, pages::normal).value());
    std::memset(old.address, 0x33, 4096);
    for (void* each : later) {
      EXPECT_TRUE(all_zero(bytes_at(each, 4096)));
      EXPECT_EQ(arenas.free(each), 0);
    }
    EXPECT_EQ(arenas.free(neighbour), 0);
  }
}

TEST(arena, freed_arena_is_reported_once_and_no_longer_shared) {
  arena_registry arenas;
  void* memory = arenas.allocate(1'000'000, pages::normal).value();
  const std::uint64_t id = arenas.acquire(memory, 1)->arena;
  arenas.release(memory);
  EXPECT_TRUE(arenas.take_retired().empty());
  ASSERT_EQ(arenas.free(memory), 0);
  EXPECT_EQ(arenas.take_retired(), std::vector<std::uint64_t>{id});
  EXPECT_TRUE(arenas.take_retired().empty());
  EXPECT_FALSE(arenas.share_arena(id));
}

TEST(arena, many_small_allocations_need_few_descriptors) {
  arena_registry arenas;
  std::vector<void*> all;
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 2000; ++i) {
    all.push_back(arenas.allocate(4096, pages::normal).value());
    ids.push_back(arenas.acquire(all.back(), 1)->arena);
    arenas.release(all.back());
  }
  std::ranges::sort(ids);
  const auto distinct = std::ranges::unique(ids).begin() - ids.begin();
  EXPECT_LE(distinct, 4);
  for (void* each : all) EXPECT_EQ(arenas.free(each), 0);
}

}  // namespace
}  // namespace verbena::softdev
