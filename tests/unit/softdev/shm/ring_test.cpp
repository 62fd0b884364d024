// SPDX-License-Identifier: MIT
#include "softdev/shm/ring.hpp"
#include "tests/unit/campaign_seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace verbena::softdev {
namespace {

constexpr std::size_t ring_bytes = min_ring_bytes;

struct test_ring {
  struct alignas(cache_line) line {
    std::byte bytes[cache_line];
  };
  std::unique_ptr<line[]> memory{new line[ring_bytes / cache_line]()};
  shared_u64 published{0};
  shared_u64 consumed{0};
  std::span<std::byte> bytes{memory[0].bytes, ring_bytes};
  ring_producer producer{bytes, published, consumed};
  ring_consumer consumer{bytes, published, consumed};

  bool put(std::uint16_t type, std::uint32_t size, std::uint8_t fill) {
    const auto reserved = producer.try_reserve(type, size);
    if (reserved.status != ring_status::ok) return false;
    std::ranges::fill(reserved.payload, std::byte{fill});
    producer.commit();
    return true;
  }
  void set_word(std::size_t offset, std::uint64_t value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  }
};

bool all_are(std::span<const std::byte> bytes, std::uint8_t value) {
  return std::ranges::all_of(bytes, [&](std::byte b) { return b == std::byte{value}; });
}

TEST(ring, records_are_read_in_order) {
  test_ring ring;
  ring_record record;
  EXPECT_EQ(ring.consumer.peek(record), ring_status::empty);
  ASSERT_TRUE(ring.put(7, 0, 0));
  ASSERT_TRUE(ring.put(8, 100, 0xab));
  ASSERT_EQ(ring.consumer.peek(record), ring_status::ok);
  EXPECT_EQ(record.type, 7);
  EXPECT_TRUE(record.payload.empty());
  ring.consumer.consume();
  ASSERT_EQ(ring.consumer.peek(record), ring_status::ok);
  ASSERT_EQ(ring.consumer.peek(record), ring_status::ok) << "a record stays until it is consumed";
  EXPECT_EQ(record.type, 8);
  EXPECT_EQ(record.payload.size(), 100U);
  EXPECT_TRUE(all_are(record.payload, 0xab));
  ring.consumer.consume();
  EXPECT_EQ(ring.consumer.peek(record), ring_status::empty);
}

TEST(ring, ring_is_full_until_the_consumer_reports_its_position) {
  test_ring ring;
  int count = 0;
  while (ring.put(1, 1000, 1)) ++count;
  EXPECT_EQ(count, static_cast<int>((ring_bytes - cache_line) / 1024));
  EXPECT_EQ(ring.producer.try_reserve(1, 1000).status, ring_status::full);
  ring_record record;
  ASSERT_EQ(ring.consumer.peek(record), ring_status::ok);
  ring.consumer.consume();
  EXPECT_FALSE(ring.put(1, 1000, 1)) << "the consumer has not published its position";
  EXPECT_TRUE(ring.consumer.publish_position());
  EXPECT_FALSE(ring.consumer.publish_position()) << "the position is unchanged";
  EXPECT_TRUE(ring.put(1, 1000, 1));
}

TEST(ring, consumer_position_is_reported_every_eighth_of_the_ring) {
  test_ring ring;
  while (ring.put(1, 1000, 1)) {
  }
  ring_record record;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(ring.consumer.peek(record), ring_status::ok);
    ring.consumer.consume();
  }
  EXPECT_TRUE(ring.put(1, 1000, 1));
}

TEST(ring, hints_name_the_next_records_once) {
  test_ring ring;
  EXPECT_EQ(ring.consumer.next_hint(), std::nullopt);
  for (std::uint16_t type = 1; type <= 6; ++type) {
    ASSERT_TRUE(ring.put(type, 40, static_cast<std::uint8_t>(type)));
  }
  std::vector<std::uint16_t> hinted;
  ring_record record;
  for (std::uint16_t type = 1; type <= 6; ++type) {
    ASSERT_EQ(ring.consumer.peek(record), ring_status::ok);
    EXPECT_EQ(record.type, type);
    while (const auto hint = ring.consumer.next_hint()) {
      EXPECT_GT(hint->type, type);
      EXPECT_EQ(hint->word, 0x0101'0101U * hint->type);
      hinted.push_back(hint->type);
    }
    ring.consumer.consume();
  }
  EXPECT_EQ(hinted, (std::vector<std::uint16_t>{2, 3, 4, 5, 6}));
}

TEST(ring, hint_of_invalid_header_stays_in_the_ring) {
  test_ring ring;
  ASSERT_TRUE(ring.put(1, 40, 0));
  ring.set_word(64, ~std::uint64_t{0});
  ring_record record;
  ASSERT_EQ(ring.consumer.peek(record), ring_status::ok);
  for (int i = 0; i < 100; ++i) static_cast<void>(ring.consumer.next_hint());
  ring.consumer.consume();
  EXPECT_EQ(ring.consumer.peek(record), ring_status::corrupt);
}

TEST(ring, uncommitted_reservation_is_not_visible) {
  test_ring ring;
  ASSERT_EQ(ring.producer.try_reserve(1, 10).status, ring_status::ok);
  ring_record record;
  EXPECT_EQ(ring.consumer.peek(record), ring_status::empty);
  ASSERT_TRUE(ring.put(2, 20, 5));
  ASSERT_EQ(ring.consumer.peek(record), ring_status::ok);
  EXPECT_EQ(record.type, 2);
}

TEST(ring, announced_records_are_counted) {
  test_ring ring;
  ASSERT_TRUE(ring.put(1, 8, 1));
  ASSERT_TRUE(ring.put(1, 8, 1));
  EXPECT_EQ(ring.consumer.announced(), 0U);
  ring.producer.announce();
  EXPECT_EQ(ring.consumer.announced(), 2U);
  ring_record record;
  ASSERT_TRUE(ring.put(1, 8, 1));  // committed, not announced
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(ring.consumer.peek(record), ring_status::ok);
    ring.consumer.consume();
  }
  EXPECT_EQ(ring.consumer.announced(), 0U)
      << "consuming unannounced records does not make the count negative";
  EXPECT_EQ(ring.consumer.check_announced(), ring_status::empty);
}

TEST(ring, records_of_mixed_sizes_survive_many_wraparounds) {
  test_ring ring;
  std::mt19937 random(test::campaign_seed(42));
  std::mt19937 expected(test::campaign_seed(42));
  ring_record record;
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  const auto size_of = [](std::mt19937& from) {
    return static_cast<std::uint32_t>(from() % (max_record_bytes(ring_bytes) + 1));
  };
  std::uint32_t next = size_of(random);
  while (received < 1500) {
    while (
        ring.put(static_cast<std::uint16_t>(sent % 100), next, static_cast<std::uint8_t>(sent))) {
      ++sent;
      next = size_of(random);
    }
    while (ring.consumer.peek(record) == ring_status::ok) {
      ASSERT_EQ(record.type, received % 100);
      ASSERT_EQ(record.payload.size(), size_of(expected));
      ASSERT_TRUE(all_are(record.payload, static_cast<std::uint8_t>(received)));
      ring.consumer.consume();
      ++received;
    }
    ring.consumer.publish_position();
  }
}

TEST(ring, payload_resembling_a_header_is_not_parsed_as_header) {
  test_ring ring;
  ring_record record;
  std::vector<std::uint64_t> fake(2000, 0xb1ad'0001'0000'0008U);
  for (int lap = 0; lap < 200; ++lap) {
    const auto bytes = static_cast<std::uint32_t>(((lap * 37) % 500) * 8);
    const auto reserved = ring.producer.try_reserve(9, bytes);
    ASSERT_EQ(reserved.status, ring_status::ok);
    if (bytes != 0) std::memcpy(reserved.payload.data(), fake.data(), bytes);
    ring.producer.commit();
    ASSERT_EQ(ring.consumer.peek(record), ring_status::ok);
    ASSERT_EQ(record.type, 9);
    ASSERT_EQ(record.payload.size(), bytes);
    ring.consumer.consume();
    ASSERT_EQ(ring.consumer.peek(record), ring_status::empty);
    ring.consumer.publish_position();
  }
}

TEST(ring, invalid_header_is_refused) {
  const std::uint64_t mark = std::uint64_t{0xb1ad} << 48;
  const std::uint64_t pad = std::uint64_t{0xffff} << 32;
  const std::uint64_t bad[] = {
      1,                                          // without the mark
      mark | (max_record_bytes(ring_bytes) + 1),  // too long
      mark | 0xffff'ffffU,                        // far too long
      mark | pad | (ring_bytes - 8),              // a pad of the whole ring
      mark | pad | 8,                             // a pad that does not reach the end
  };
  for (const std::uint64_t header : bad) {
    test_ring ring;
    ring.set_word(0, header);
    ring_record record;
    EXPECT_EQ(ring.consumer.peek(record), ring_status::corrupt) << std::hex << header;
    ring.set_word(0, 0);
    EXPECT_EQ(ring.consumer.peek(record), ring_status::corrupt) << "the ring remains corrupt";
  }
}

TEST(ring, record_beyond_the_ring_is_refused) {
  test_ring ring;
  ring_record record;
  const std::uint32_t most = max_record_bytes(ring_bytes);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ring.put(1, most, 1));
    ASSERT_EQ(ring.consumer.peek(record), ring_status::ok);
    ring.consumer.consume();
  }
  const std::size_t at = 3 * ((8 + most + 63) / 64 * 64);
  ring.set_word(at, (std::uint64_t{0xb1ad} << 48) | (std::uint64_t{1} << 32) | most);
  const bool leaves = at + 8 + most > ring_bytes;
  EXPECT_EQ(ring.consumer.peek(record), leaves ? ring_status::corrupt : ring_status::ok);
}

TEST(ring, random_bytes_never_cause_out_of_bounds_access) {
  std::mt19937_64 random(test::campaign_seed(7));
  for (int round = 0; round < 2000; ++round) {
    test_ring ring;
    for (std::size_t at = 0; at < ring_bytes; at += cache_line) {
      std::uint64_t word = random();
      // Half of the headers are nearly valid, so that some records are accepted.
      if ((round & 1) != 0) word = (std::uint64_t{0xb1ad} << 48) | (word & 0x1'0000'0fffU);
      ring.set_word(at, word);
    }
    ring.published = random();
    ring_record record;
    std::uint64_t steps = 0;
    while (steps < 4096 && ring.consumer.peek(record) == ring_status::ok) {
      ASSERT_GE(record.payload.data(), ring.bytes.data());
      ASSERT_LE(record.payload.data() + record.payload.size(), ring.bytes.data() + ring_bytes);
      ring.consumer.consume();
      ++steps;
    }
    static_cast<void>(ring.consumer.check_announced());
  }
}

TEST(ring, announcement_without_record_is_detected) {
  test_ring ring;
  ring.published = 3;
  EXPECT_EQ(ring.consumer.check_announced(), ring_status::corrupt);
  ring_record record;
  EXPECT_EQ(ring.consumer.peek(record), ring_status::corrupt);
  EXPECT_EQ(ring.consumer.announced(), 0U) << "the announcement must not prevent sleep";
}

TEST(ring, impossible_consumer_position_is_refused) {
  for (const std::uint64_t position :
       {std::uint64_t{1} << 40, ~std::uint64_t{0}, std::uint64_t{64}, std::uint64_t{1}}) {
    test_ring ring;
    ring.consumed = position;  // before the first record
    ring_status status = ring_status::ok;
    while ((status = ring.producer.try_reserve(1, 1000).status) == ring_status::ok) {
      ring.producer.commit();
    }
    // 64 and 1 are within the produced bytes; 1 is not the start of a record.
    EXPECT_EQ(status, position == 64 ? ring_status::full : ring_status::corrupt) << position;
  }
}

TEST(ring, stream_between_threads_arrives_intact) {
  test_ring ring;
  constexpr std::uint32_t count = 20000;
  std::thread consumer([&] {
    ring_record record;
    for (std::uint32_t received = 0; received < count;) {
      const auto status = ring.consumer.peek(record);
      ASSERT_NE(status, ring_status::corrupt);
      if (status == ring_status::empty) {
        ring.consumer.publish_position();
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(record.payload.size(), received % 300);
      ASSERT_TRUE(all_are(record.payload, static_cast<std::uint8_t>(received)));
      ring.consumer.consume();
      ++received;
    }
  });
  for (std::uint32_t sent = 0; sent < count;) {
    if (ring.put(1, sent % 300, static_cast<std::uint8_t>(sent))) {
      ++sent;
    } else {
      std::this_thread::yield();
    }
  }
  consumer.join();
}

}  // namespace
}  // namespace verbena::softdev
