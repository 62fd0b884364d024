// SPDX-License-Identifier: MIT
#include "softdev/shm/mapping_table.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "softdev/ipc/eventfd.hpp"
#include "softdev/shm/arena.hpp"

namespace verbena::softdev {
namespace {

using pages = arena_registry::pages;

struct cached {
  arena_registry arenas;
  void* memory = arenas.allocate(1'000'000, pages::normal).value();
  arena_location place = arenas.acquire(memory, 1).value();
  mapping_table cache;

  bool give() {
    auto share = arenas.share_arena(place.arena).value();
    return cache.insert(place.arena, std::move(share.fd), share.bytes);
  }
};

TEST(mapping_table, arena_is_requested_once_and_then_ready) {
  cached c;
  const auto look = [&](std::uint64_t offset, std::uint64_t bytes) {
    return c.cache.find(c.place.arena, offset, bytes, map_access::read_write);
  };
  EXPECT_EQ(look(0, 1).status, map_status::ask);
  EXPECT_TRUE(c.cache.mark_asked(c.place.arena));
  EXPECT_FALSE(c.cache.mark_asked(c.place.arena));
  EXPECT_EQ(look(0, 1).status, map_status::pending);
  ASSERT_TRUE(c.give());
  const auto found = look(10, 5);
  ASSERT_EQ(found.status, map_status::ready);
  *found.address = std::byte{3};
  EXPECT_EQ(static_cast<std::byte*>(c.memory)[10], std::byte{3});
  EXPECT_FALSE(c.give()) << "the arena was not requested again";
}

TEST(mapping_table, ranges_outside_the_arena_are_unavailable) {
  cached c;
  ASSERT_TRUE(c.cache.mark_asked(c.place.arena));
  ASSERT_TRUE(c.give());
  const std::uint64_t size = c.arenas.share_arena(c.place.arena)->bytes;
  const auto status = [&](std::uint64_t offset, std::uint64_t bytes) {
    return c.cache.find(c.place.arena, offset, bytes, map_access::read_only).status;
  };
  EXPECT_EQ(status(0, size), map_status::ready);
  EXPECT_EQ(status(1, size), map_status::unavailable);
  EXPECT_EQ(status(size, 1), map_status::unavailable);
  EXPECT_EQ(status(~std::uint64_t{0}, 2), map_status::unavailable);
  EXPECT_EQ(status(2, ~std::uint64_t{0}), map_status::unavailable);
  EXPECT_EQ(c.cache.find(0, 0, 0, map_access::read_only).status, map_status::unavailable);
}

TEST(mapping_table, descriptor_other_than_sealed_memory_of_that_size_is_refused) {
  cached c;
  const auto refused = [&](unique_fd fd, std::uint64_t bytes) {
    mapping_table cache;
    EXPECT_TRUE(cache.mark_asked(8));
    EXPECT_FALSE(cache.insert(8, std::move(fd), bytes));
    return cache.find(8, 0, 1, map_access::read_only).status == map_status::unavailable;
  };
  EXPECT_TRUE(refused(c.arenas.share_arena(c.place.arena).value().fd, 4096));
  EXPECT_TRUE(refused(c.arenas.share_arena(c.place.arena).value().fd, 0));
  EXPECT_TRUE(refused(create_eventfd().value(), 4096));
  EXPECT_TRUE(refused(unique_fd(::memfd_create("plain", MFD_CLOEXEC)), 0));
  EXPECT_FALSE(c.cache.insert(55, create_eventfd().value(), 4096)) << "the arena was not requested";
}

TEST(mapping_table, refused_arena_stays_unavailable_and_evicted_one_is_requested_again) {
  mapping_table cache;
  ASSERT_TRUE(cache.mark_asked(1));
  cache.refuse(1);
  EXPECT_EQ(cache.find(1, 0, 1, map_access::read_only).status, map_status::unavailable);
  ASSERT_TRUE(cache.mark_asked(2));
  cache.forget(2);
  EXPECT_EQ(cache.find(2, 0, 1, map_access::read_only).status, map_status::ask);
}

TEST(mapping_table, retired_mapping_exists_until_it_is_collected) {
  cached c;
  ASSERT_TRUE(c.cache.mark_asked(c.place.arena));
  ASSERT_TRUE(c.give());
  std::byte* address = c.cache.find(c.place.arena, 0, 1, map_access::read_only).address;
  c.cache.retire(c.place.arena);
  EXPECT_EQ(c.cache.find(c.place.arena, 0, 1, map_access::read_only).status, map_status::ask);
  ASSERT_TRUE(c.cache.has_retired());
  unsigned char resident = 0;
  EXPECT_EQ(::mincore(address, 4096, &resident), 0) << "the mapping must still exist";
  c.cache.take_retired().clear();
  EXPECT_FALSE(c.cache.has_retired());
  EXPECT_NE(::mincore(address, 4096, &resident), 0) << "the mapping must not exist";
}

TEST(mapping_table, full_cache_refuses_another_arena) {
  mapping_table cache;
  std::size_t held = 0;
  for (std::uint64_t id = 1; id <= 4 * mapping_table::capacity; ++id) {
    if (cache.mark_asked(id)) ++held;
  }
  EXPECT_GE(held, mapping_table::capacity / 2);
  EXPECT_LE(held, mapping_table::capacity);
}

}  // namespace
}  // namespace verbena::softdev
