// SPDX-License-Identifier: MIT
#include "softdev/shm/segment.hpp"
#include "tests/unit/campaign_seed.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace verbena::softdev {
namespace {

struct segments {
  std::unique_ptr<public_segment> own = public_segment::create(5, 99).value();
  peer_segment seen{map_shared(own->fd(), public_segment_bytes, map_access::read_only).value()};
};

region_record region(std::uint32_t key, std::uint64_t address = 0x1000) {
  return {.key = key,
          .pd = 3,
          .access = 7,
          .iova = address,
          .length = 0x2000,
          .address = address,
          .arena = 4,
          .arena_offset = 0x100};
}

TEST(segment, header_is_readable_by_a_peer) {
  segments s;
  EXPECT_EQ(s.seen.header().magic, segment_magic);
  EXPECT_EQ(s.seen.header().version, layout_version);
  EXPECT_EQ(s.seen.header().slot, 5U);
  EXPECT_EQ(s.seen.header().generation, 99U);
}

TEST(segment, writable_mapping_by_a_peer_is_refused) {
  segments s;
  EXPECT_FALSE(map_shared(s.own->fd(), public_segment_bytes, map_access::read_write));
  auto read_only = map_shared(s.own->fd(), public_segment_bytes, map_access::read_only).value();
  EXPECT_NE(::mprotect(read_only.data(), read_only.size(), PROT_READ | PROT_WRITE), 0);
}

TEST(segment, region_is_found_until_it_is_withdrawn) {
  segments s;
  region_record out;
  EXPECT_EQ(s.seen.find_region(77, out), lookup::absent);
  ASSERT_TRUE(s.own->publish_region(region(77)));
  ASSERT_EQ(s.seen.find_region(77, out), lookup::found);
  EXPECT_EQ(out.key, 77U);
  EXPECT_EQ(out.pd, 3U);
  EXPECT_EQ(out.access, 7U);
  EXPECT_EQ(out.iova, 0x1000U);
  EXPECT_EQ(out.length, 0x2000U);
  EXPECT_EQ(out.address, 0x1000U);
  EXPECT_EQ(out.arena, 4U);
  EXPECT_EQ(out.arena_offset, 0x100U);
  EXPECT_TRUE(s.seen.is_current(out));
  EXPECT_EQ(s.seen.find_region(78, out), lookup::absent);
  ASSERT_TRUE(s.own->withdraw_region(77));
  EXPECT_EQ(s.seen.find_region(77, out), lookup::absent);
  EXPECT_FALSE(s.own->withdraw_region(77));
  EXPECT_FALSE(s.own->withdraw_region(0));
  EXPECT_EQ(s.seen.find_region(0, out), lookup::absent);
}

TEST(segment, published_region_in_an_arena_is_shareable) {
  segments s;
  region_record ordinary = region(78);
  ordinary.arena = 0;
  ASSERT_TRUE(s.own->publish_region(region(77)));
  ASSERT_TRUE(s.own->publish_region(ordinary));
  EXPECT_TRUE(s.own->is_shareable(77));
  EXPECT_FALSE(s.own->is_shareable(78));
  EXPECT_FALSE(s.own->is_shareable(79));
  EXPECT_FALSE(s.own->is_shareable(0));
  ASSERT_TRUE(s.own->withdraw_region(77));
  EXPECT_FALSE(s.own->is_shareable(77));
}

TEST(segment, republished_key_is_a_new_registration) {
  segments s;
  region_record first;
  region_record second;
  ASSERT_TRUE(s.own->publish_region(region(77)));
  ASSERT_EQ(s.seen.find_region(77, first), lookup::found);
  ASSERT_TRUE(s.own->withdraw_region(77));
  ASSERT_TRUE(s.own->publish_region(region(77)));
  ASSERT_EQ(s.seen.find_region(77, second), lookup::found);
  EXPECT_NE(first.generation, second.generation);
  EXPECT_FALSE(s.seen.is_current(first));
  EXPECT_TRUE(s.seen.is_current(second));
}

TEST(segment, tens_of_thousands_of_random_keys_are_found) {
  segments s;
  std::mt19937 random(test::campaign_seed(1));
  std::vector<std::uint32_t> keys;
  int refused = 0;
  region_record out;
  while (keys.size() < 40'000) {
    const auto key = static_cast<std::uint32_t>(random());
    if (key == 0 || s.seen.find_region(key, out) == lookup::found) continue;
    if (s.own->publish_region(region(key))) {
      keys.push_back(key);
    } else {
      ++refused;
    }
  }
  EXPECT_LT(refused, 100);
  for (const std::uint32_t key : keys) ASSERT_EQ(s.seen.find_region(key, out), lookup::found);
  for (const std::uint32_t key : keys) ASSERT_TRUE(s.own->withdraw_region(key));
  for (const std::uint32_t key : keys) ASSERT_EQ(s.seen.find_region(key, out), lookup::absent);
}

TEST(segment, regions_that_come_and_go_touch_few_pages) {
  segments s;
  std::mt19937 random(test::campaign_seed(7));
  const auto pages = [&] {
    struct stat file{};
    EXPECT_EQ(::fstat(s.own->fd(), &file), 0);
    return static_cast<std::size_t>(file.st_blocks) * 512 / segment_page;
  };
  const std::size_t before = pages();
  for (int i = 0; i < 10'000; ++i) {
    const auto key = static_cast<std::uint32_t>(random()) | 1U;
    if (!s.own->publish_region(region(key))) continue;
    ASSERT_TRUE(s.own->withdraw_region(key));
  }
  constexpr std::size_t pages_of_places = region_places * sizeof(shared_u32) / segment_page;
  EXPECT_LE(pages() - before, pages_of_places + 1) << "one entry is used again and again";
}

TEST(segment, key_is_refused_until_one_of_its_slots_is_free) {
  segments s;
  // Finds keys with the same hash by trial.
  const auto place = [](std::uint32_t key) { return (key * 0x9e37'79b1U) >> 14; };
  std::vector<std::uint32_t> same;
  for (std::uint32_t key = 1; same.size() < region_window + 1; ++key) {
    if (place(key) == place(1)) same.push_back(key);
  }
  for (std::uint32_t i = 0; i < region_window; ++i) {
    ASSERT_TRUE(s.own->publish_region(region(same[i])));
  }
  EXPECT_FALSE(s.own->publish_region(region(same.back())));
  ASSERT_TRUE(s.own->withdraw_region(same[3]));
  EXPECT_TRUE(s.own->publish_region(region(same.back())));
  region_record out;
  EXPECT_EQ(s.seen.find_region(same.back(), out), lookup::found);
}

TEST(segment_death, rule_violation_stops_the_program) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";  // segments cannot be used after fork
  segments s;
  EXPECT_DEATH(static_cast<void>(s.own->publish_region(region(0))), "key 0 names no memory region");
  ASSERT_TRUE(s.own->publish_region(region(9)));
  EXPECT_DEATH(static_cast<void>(s.own->publish_region(region(9))), "published once at a time");
}

TEST(segment, frozen_region_is_busy_and_rebound_region_has_a_new_target) {
  segments s;
  ASSERT_TRUE(s.own->publish_region(region(1, 0x10000)));
  ASSERT_TRUE(s.own->publish_region(region(2, 0x11000)));
  ASSERT_TRUE(s.own->publish_region(region(3, 0x20000)));
  auto ordinary = region(4, 0x10000);
  ordinary.arena = 0;
  ASSERT_TRUE(s.own->publish_region(ordinary));
  region_record before;
  region_record out;
  ASSERT_EQ(s.seen.find_region(2, before), lookup::found);
  s.own->freeze_regions(0x10000, 0x4000);
  EXPECT_EQ(s.seen.find_region(1, out), lookup::busy);
  EXPECT_EQ(s.seen.find_region(2, out), lookup::busy);
  EXPECT_TRUE(s.seen.is_current(before)) << "its pages did not move yet";
  EXPECT_EQ(s.seen.find_region(3, out), lookup::found);
  EXPECT_EQ(s.seen.find_region(4, out), lookup::found);
  s.own->thaw_regions(0x10000, 0x4000);
  EXPECT_TRUE(s.seen.is_current(before));
  s.own->freeze_regions(0x10000, 0x4000);
  s.own->outdate_regions(0x10000, 0x4000);
  EXPECT_EQ(s.seen.find_region(2, out), lookup::busy);
  EXPECT_FALSE(s.seen.is_current(before)) << "its pages move";
  s.own->rebind_regions(0x10000, 0x4000, 12, 0x10000);
  ASSERT_EQ(s.seen.find_region(2, out), lookup::found);
  EXPECT_EQ(out.arena, 12U);
  EXPECT_EQ(out.arena_offset, 0x1000U);
  EXPECT_FALSE(s.seen.is_current(before));
  ASSERT_EQ(s.seen.find_region(3, out), lookup::found);
  EXPECT_EQ(out.arena, 4U);
  ASSERT_EQ(s.seen.find_region(4, out), lookup::found);
  EXPECT_EQ(out.arena, 0U);
}

TEST(segment, readers_never_see_parts_of_two_registrations) {
  segments s;
  std::atomic<bool> stop = false;
  ASSERT_TRUE(s.own->publish_region(region(1, 0)));
  std::thread writer([&] {
    for (std::uint64_t value = 1; !stop; ++value) {
      region_record next{.key = 1,
                         .pd = static_cast<std::uint32_t>(value),
                         .access = static_cast<std::uint32_t>(value),
                         .iova = value,
                         .length = value,
                         .address = value,
                         .arena = value,
                         .arena_offset = value};
      ASSERT_TRUE(s.own->withdraw_region(1));
      ASSERT_TRUE(s.own->publish_region(next));
    }
  });
  int seen = 0;
  for (int i = 0; i < 100'000 || seen == 0; ++i) {  // the writer may start late
    region_record out;
    const auto status = s.seen.find_region(1, out);
    if (status != lookup::found || out.iova == 0) continue;
    ++seen;
    ASSERT_EQ(out.iova, out.length);
    ASSERT_EQ(out.iova, out.address);
    ASSERT_EQ(out.iova, out.arena);
    ASSERT_EQ(out.iova, out.arena_offset);
    ASSERT_EQ(static_cast<std::uint32_t>(out.iova), out.pd);
    ASSERT_EQ(static_cast<std::uint32_t>(out.iova), out.access);
  }
  stop = true;
  writer.join();
}

TEST(segment, queue_pair_entry_is_published_updated_and_removed) {
  segments s;
  const std::uint32_t qpn = (5U << 14) | 1234U;
  queue_pair_record out;
  EXPECT_EQ(s.seen.find_queue_pair(qpn, out), lookup::absent);
  s.own->publish_queue_pair({.qpn = qpn, .state = 2, .pd = 8, .access = 6, .peer_qpn = 0x123456});
  ASSERT_EQ(s.seen.find_queue_pair(qpn, out), lookup::found);
  EXPECT_EQ(out.state, 2U);
  EXPECT_EQ(out.pd, 8U);
  EXPECT_EQ(out.access, 6U);
  EXPECT_EQ(out.peer_qpn, 0x123456U);
  EXPECT_EQ(s.seen.find_queue_pair((6U << 14) | 1234U, out), lookup::absent)
      << "another number with the same index";
  s.own->line(qpn).notes[1] = 17;
  EXPECT_EQ(s.seen.line(qpn).notes[1], 17U);
  s.own->withdraw_queue_pair(qpn);
  EXPECT_EQ(s.seen.find_queue_pair(qpn, out), lookup::absent);
  EXPECT_EQ(s.seen.line(qpn).notes[1], 0U);
  EXPECT_EQ(s.seen.find_queue_pair(0, out), lookup::absent);
}

TEST(segment, each_arming_publishes_a_new_value) {
  segments s;
  constexpr std::uint32_t qpn = 3;
  const std::uint32_t line = s.own->claim_completion_queue(70).value();
  EXPECT_EQ(s.seen.receive_queue_of(qpn), nullptr);
  s.own->line(qpn).receive_queue = line + 1;
  const completion_queue_line* const seen = s.seen.receive_queue_of(qpn);
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(seen->channel, 70U);
  s.own->arm(line, arm_state::any);
  const std::uint32_t first = seen->arm;
  EXPECT_EQ(arm_state_of(first), arm_state::any);
  s.own->arm(line, arm_state::any);
  EXPECT_NE(seen->arm, first);
  s.own->arm(line, arm_state::solicited);
  EXPECT_EQ(arm_state_of(seen->arm), arm_state::solicited);
  s.own->arm(line, arm_state::none);
  EXPECT_EQ(arm_state_of(seen->arm), arm_state::none);
  EXPECT_EQ(arm_state_of(0xffff'ffffU), arm_state::none)
      << "an invalid value means that the queue is not armed";
}

TEST(segment, line_of_a_completion_queue_is_used_again_when_it_is_released) {
  segments s;
  for (std::uint32_t i = 0; i < completion_queue_lines; ++i)
    ASSERT_TRUE(s.own->claim_completion_queue(1).has_value()) << i;
  EXPECT_FALSE(s.own->claim_completion_queue(1).has_value());
  s.own->line(9).receive_queue = 18;
  s.own->arm(17, arm_state::any);
  s.own->release_completion_queue(17);
  EXPECT_EQ(arm_state_of(s.seen.receive_queue_of(9)->arm), arm_state::none);
  EXPECT_EQ(s.seen.receive_queue_of(9)->channel, 0U);
  EXPECT_EQ(s.own->claim_completion_queue(1), 17U);
}

TEST(segment, completion_queue_that_does_not_exist_is_not_found) {
  segments s;
  s.own->line(9).receive_queue = completion_queue_lines;
  EXPECT_NE(s.seen.receive_queue_of(9), nullptr);
  s.own->line(9).receive_queue = completion_queue_lines + 1;
  EXPECT_EQ(s.seen.receive_queue_of(9), nullptr);
  s.own->line(9).receive_queue = ~std::uint32_t{0};
  EXPECT_EQ(s.seen.receive_queue_of(9), nullptr);
  s.own->line(9).send_queue = completion_queue_lines + 1;
  EXPECT_EQ(s.seen.send_queue_of(9), nullptr);
}

TEST(segment, queue_pair_names_the_completion_queues_of_both_directions) {
  segments s;
  s.own->set_completion_queues(9, 17, 18);
  EXPECT_EQ(s.seen.send_queue_of(9) - s.seen.receive_queue_of(9), 1);
  s.own->set_completion_queues(9, {}, 18);
  EXPECT_EQ(s.seen.receive_queue_of(9), nullptr);
  EXPECT_NE(s.seen.send_queue_of(9), nullptr);
  s.own->withdraw_queue_pair(9);
  EXPECT_EQ(s.seen.send_queue_of(9), nullptr);
}

TEST(segment, random_content_does_not_cause_endless_loops) {
  // The segment of a peer contains random words. Every lookup returns, and its result is
  // consistent.
  auto hostile = create_sealed("hostile", public_segment_bytes, sealed_for::everybody).value();
  std::mt19937_64 random(test::campaign_seed(3));
  for (std::size_t at = 0; at < 1U << 20; at += 8) {
    *hostile.map.at<std::uint64_t>(regions_offset + at) = random();
    // Half of the places name entries, which are random as well.
    const std::uint64_t word = random();
    *hostile.map.at<std::uint64_t>(region_places_offset + at) =
        (word >> 63U) != 0 ? word : word & 0x0001'ffff'0001'ffffU;
    *hostile.map.at<std::uint64_t>(queue_pair_lines_offset + at) = random();
  }
  const peer_segment seen(
      map_shared(hostile.fd.get(), public_segment_bytes, map_access::read_only).value());
  region_record region;
  queue_pair_record queue_pair;
  for (int i = 0; i < 30'000; ++i) {
    const auto number = static_cast<std::uint32_t>(random());
    if (seen.find_region(number, region) == lookup::found) {
      EXPECT_EQ(region.key, number);
    }
    if (seen.find_queue_pair(number, queue_pair) == lookup::found) {
      EXPECT_EQ(queue_pair.qpn, number);
    }
  }
  // An entry that is permanently marked as being changed.
  hostile.map.at<queue_pair_line>(queue_pair_lines_offset)->sequence = 1;
  EXPECT_EQ(seen.find_queue_pair(1U << 14, queue_pair), lookup::busy);
}

}  // namespace
}  // namespace verbena::softdev
