// SPDX-License-Identifier: MIT
#include "verbena/bringup/offer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/bringup/offers.hpp"

namespace {

using namespace offers;
using testing::HasSubstr;

TEST(offer, encoded_offer_round_trips) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const offer made = random_offer(random);
    const auto bytes = made.encode();
    ASSERT_LE(bytes.size(), offer::max_encoded_bytes);
    ASSERT_EQ(offer::decode(bytes).value(), made);
  }
}

TEST(offer, full_offer_has_the_maximum_length) {
  offer full = adapter(1, std::vector<offered_gid>(offer::max_gids, entry("10.0.0.1/24")));
  full.device = std::string(offer::max_device_name, 'd');
  EXPECT_LE(full.encode().size(), offer::max_encoded_bytes);
  EXPECT_EQ(offer::decode(full.encode()).value(), full);
}

TEST(offer, truncated_or_extended_offer_is_rejected) {
  std::mt19937 random(2);
  for (int round = 0; round < 6; ++round) {
    auto bytes = random_offer(random).encode();
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      const auto cut = offer::decode(std::span(bytes).first(length));
      ASSERT_FALSE(cut) << length;
      EXPECT_EQ(cut.error().kind(), error_kind::protocol);
    }
    bytes.push_back({});
    EXPECT_FALSE(offer::decode(bytes));
  }
}

// The encoding is unique: every accepted offer encodes to the bytes from which it was decoded.
TEST(offer, changed_offer_is_decoded_or_rejected) {
  std::mt19937 random(3);
  for (int round = 0; round < 6; ++round) {
    const auto bytes = random_offer(random).encode();
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      auto flipped = bytes;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      const auto read = offer::decode(flipped);
      ASSERT_TRUE(!read || read->encode() == flipped) << bit;
    }
  }
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::byte> garbage(random() % 200);
    for (auto& byte : garbage) byte = static_cast<std::byte>(random() % 4);
    const auto read = offer::decode(garbage);
    ASSERT_TRUE(!read || read->encode() == garbage);
  }
}

TEST(offer, invalid_field_is_named_in_the_error) {
  const auto bytes = adapter(1, {entry("10.0.0.1/24")}).encode();
  struct wrong {
    std::size_t at;
    std::uint8_t value;
    const char* words;
  };
  const std::size_t name = 52;                  // the length of `mlx5_1`
  const std::size_t gids = name + 1 + 6;        // the number of GIDs
  const std::size_t after_gid = gids + 1 + 16;  // the type of the first GID
  for (const auto& [at, value, words] : {wrong{0, 5, "transport"},
                                         wrong{1, 4, "fabric"},
                                         wrong{2, 0, "link layer"},
                                         wrong{3, 8, "flag"},
                                         wrong{4, 6, "MTU"},
                                         wrong{7, 32, "ACK delay"},
                                         wrong{8, 32, "ACK timeout"},
                                         wrong{9, 8, "retry count"},
                                         wrong{10, 8, "RNR retry count"},
                                         wrong{11, 32, "RNR timer"},
                                         wrong{36, 1, "queue pair number"},
                                         wrong{40, 1, "PSN"},
                                         wrong{51, 1, "probe"},
                                         wrong{name, 65, "device name"},
                                         wrong{name + 1, 0x1b, "device name"},
                                         wrong{gids, 33, "number of GIDs"},
                                         wrong{after_gid, 3, "GID type"},
                                         wrong{after_gid + 2, 129, "prefix length"},
                                         wrong{after_gid + 2, 95, "prefix length"},
                                         wrong{after_gid + 3, 2, "GID flag"}}) {
    auto broken = bytes;
    broken[at] = std::byte{value};
    const auto read = offer::decode(broken);
    ASSERT_FALSE(read) << words;
    EXPECT_THAT(read.error().diagnosis(), HasSubstr(words)) << at;
  }
}

TEST(offer_death, more_gids_than_the_format_permits_aborts) {
  const offer many = adapter(1, std::vector<offered_gid>(33, entry("10.0.0.1/24")));
  EXPECT_DEATH(static_cast<void>(many.encode()), "more than 32 GIDs");
}

}  // namespace
